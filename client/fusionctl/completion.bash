# Completion of fusionctl for bash. Commands and options are those that --help lists, so that nobody keeps a second list.

_fusionctl() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} help command= word
	help=$("${COMP_WORDS[0]}" --help 2>/dev/null)
	COMPREPLY=()
	case $previous in
	--sort) COMPREPLY=($(compgen -W "session engine user pid memory queued device kernels command" -- "$current")); return ;;
	--kind) COMPREPLY=($(compgen -W "request window plan build launch run copy" -- "$current")); return ;;
	-s | --socket | --dot | --svg | --root) COMPREPLY=($(compgen -f -- "$current")); return ;;
	esac
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$(sed -n 's/^ .*\(--[a-z-]*\).*/\1/p' <<<"$help" | sort -u)" -- "$current"))
		return
	fi
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		[[ $word == -* ]] || { command=$word; break; }
	done
	case $command in
	"") COMPREPLY=($(compgen -W "$(sed -n '/^Commands:/,/^ *-/s/^  \([a-z][a-z]*\)\( .*\)*$/\1/p' <<<"$help")" -- "$current")) ;;
	config) COMPREPLY=($(compgen -W "get set $("${COMP_WORDS[0]}" config 2>/dev/null | sed 's/ .*//')" -- "$current")) ;;
	cache) COMPREPLY=($(compgen -W "stat prune verify warm" -- "$current") $(compgen -f -- "$current")) ;;
	patterns) COMPREPLY=($(compgen -W "define forget" -- "$current")) ;;
	bench) COMPREPLY=($(compgen -W "pattern" -- "$current")) ;;
	trace) COMPREPLY=($(compgen -W "record" -- "$current") $(compgen -f -- "$current")) ;;
	kill) COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" clients 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$current")) ;;
	explain | graph | run | tune) COMPREPLY=($(compgen -f -- "$current")) ;;
	esac
}

complete -F _fusionctl fusionctl
