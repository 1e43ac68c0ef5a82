# Completion of fusionctl for bash. Commands and options are those that --help lists, so that nobody keeps a second list.

_fusionctl_sessions() {
	"${COMP_WORDS[0]}" clients 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_fusionctl_patterns() {
	"${COMP_WORDS[0]}" patterns 2>/dev/null | awk 'NR > 1 { print $1 }'
}

# _fusionctl_options HELP COMMAND: the options that it takes. Those of some commands alone name them first, with a colon.
_fusionctl_options() {
	awk -v command="$2" '
		function out(  list, all, mine) {
			all = 1
			while (match(doc, /(^|; )[a-z-]+(, [a-z-]+)*( [a-z]+)?: /)) {
				list = " " substr(doc, RSTART, RLENGTH)
				doc = substr(doc, RSTART + RLENGTH)
				all = 0
				if (command == "" || list ~ "[ ;]" command "[ ,:]") mine = 1
			}
			if (name && (all || mine)) print name
			name = ""
		}
		/^  +(-., )?--[a-z]/ { out(); match($0, /--[a-z-]+/); name = substr($0, RSTART, RLENGTH); sub(/^ *(-., )?--[^ ]+ */, ""); doc = $0 " "; next }
		/^              / { sub(/^ +/, ""); doc = doc $0 " "; next }
		{ out() }
		END { out() }' <<<"$1"
}

_fusionctl() {
	# Letters are those of ASCII, whatever the language: in Turkish i does not lie between a and z.
	local LC_ALL=C
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} help command= word value=
	help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
	COMPREPLY=()
	case $previous in
	--sort) COMPREPLY=($(compgen -W "session engine user pid memory queued device kernels command" -- "$current")); return ;;
	--session) COMPREPLY=($(compgen -W "$(_fusionctl_sessions)" -- "$current")); return ;;
	--limit | --seconds | --size) return ;;
	--since) COMPREPLY=($(compgen -W "12h 7d" -- "$current")); return ;;
	--kind) COMPREPLY=($(compgen -W "request window plan build launch run copy" -- "$current")); return ;;
	-s | --socket | --dot | --svg | --root) COMPREPLY=($(compgen -f -- "$current")); return ;;
	esac
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		# What follows an option with a value is no command.
		[[ $word == -* || $value ]] || { command=$word; break; }
		[[ $word =~ ^(-s|--(socket|limit|session|dot|size|root|kind|seconds|since|sort|svg))$ ]] && value=$word || value=
	done
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$(_fusionctl_options "$help" "$command")" -- "$current"))
		return
	fi
	case $command in
	"") COMPREPLY=($(compgen -W "$(sed -n '/^Commands:/,/^ *-/s/^  \([a-z][a-z-]*\)\( .*\)*$/\1/p' <<<"$help")" -- "$current")) ;;
	config) COMPREPLY=($(compgen -W "get set $("${COMP_WORDS[0]}" config 2>/dev/null | sed 's/ .*//')" -- "$current")) ;;
	cache) COMPREPLY=($(compgen -W "stat prune verify check warm" -- "$current") $(compgen -f -- "$current")) ;;
	patterns) [[ $previous == forget ]] && COMPREPLY=($(compgen -W "$(_fusionctl_patterns)" -- "$current")) ||
		COMPREPLY=($(compgen -W "define forget" -- "$current")) ;;
	bench) [[ $previous == pattern ]] && COMPREPLY=($(compgen -W "$(_fusionctl_patterns)" -- "$current")) ||
		COMPREPLY=($(compgen -W "pattern" -- "$current")) ;;
	quarantine) COMPREPLY=($(compgen -W "list clear" -- "$current")) ;;
	trace) COMPREPLY=($(compgen -W "record" -- "$current") $(compgen -f -- "$current")) ;;
	kill) COMPREPLY=($(compgen -W "$(_fusionctl_sessions)" -- "$current")) ;;
	can-fuse | explain | graph | opportunities | run | tune) COMPREPLY=($(compgen -f -- "$current")) ;;
	esac
}

complete -F _fusionctl fusionctl
