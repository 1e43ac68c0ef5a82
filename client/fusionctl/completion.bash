# Completion of fusionctl for bash. What there is tells `fusionctl --complete [COMMAND]`, a fact a line: word, option, letter (of an
# option, each with what it takes) and value (of an option); so nobody keeps a second list.

_fusionctl_sessions() {
	"${COMP_WORDS[0]}" clients 2>/dev/null | awk 'NR > 1 { print $1 }'
}

_fusionctl_patterns() {
	"${COMP_WORDS[0]}" patterns 2>/dev/null | awk '{ print $1 }'
}

# _fusionctl_facts KIND [OPTION]: the second words of these lines of $told; of an option: the third.
_fusionctl_facts() {
	awk -v kind="$1" -v option="$2" '$1 == kind && (option == "" || $2 == option) { print option == "" ? $2 : $3 }' <<<"$told"
}

_fusionctl() {
	# Letters are those of ASCII, whatever the language: in Turkish i does not lie between a and z.
	local LC_ALL=C
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} told command= first= word last= argument= words files= joined=
	# bash makes three words of --kind=launch: of a "=" behind an option the next word, which may have begun already, is the value.
	if [[ $current == = && $previous == --* ]]; then
		current= joined=yes
	elif [[ $previous == = && ${COMP_WORDS[COMP_CWORD - 2]} == --* ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]} joined=yes
	fi
	told=$("${COMP_WORDS[0]}" --complete 2>/dev/null)
	COMPREPLY=()
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		if [[ $word == = && $last == --* ]]; then
			last= argument=given
			continue
		fi
		last=$word
		# What follows an option with a value is no word.
		if [[ $word != -* && -z $argument ]]; then
			[[ -z $command || -n $first ]] || first=$word
			[[ -n $command ]] || command=$word
		fi
		argument=$(_fusionctl_facts option "$word")$(_fusionctl_facts letter "$word")
		[[ $argument != \[* ]] || argument=
	done
	argument=$(_fusionctl_facts option "$previous")$(_fusionctl_facts letter "$previous")
	# What an option may have, it has behind a "=" alone.
	[[ -z $joined ]] || argument=${argument#\[}
	case $argument in
	"" | \[*) ;;
	*\]) COMPREPLY=($(compgen -W "${argument%\]}" -- "$current")); return ;;
	FILE | FOLDER | PATH) COMPREPLY=($(compgen -f -- "$current")); return ;;
	*)
		words=$(_fusionctl_facts value "$previous")
		[[ $previous != --session ]] || words=$(_fusionctl_sessions)
		COMPREPLY=($(compgen -W "$words" -- "$current"))
		return
		;;
	esac
	[[ -z $command ]] || told=$("${COMP_WORDS[0]}" --complete "$command" 2>/dev/null)
	if [[ $current == -* ]]; then
		COMPREPLY=($(compgen -W "$(_fusionctl_facts option)" -- "$current"))
		return
	fi
	# Of a command that does several things the first word says which.
	[[ -n $first ]] || words=$(_fusionctl_facts word)
	case $command/$first in
	config/get | config/set) [[ $previous != "$first" ]] || words=$("${COMP_WORDS[0]}" config 2>/dev/null | sed 's/ .*//') ;;
	patterns/forget | bench/pattern) [[ $previous != "$first" ]] || words=$(_fusionctl_patterns) ;;
	kill/) words=$(_fusionctl_sessions) ;;
	cache/warm | trace/record | can-fuse/ | explain/ | graph/ | opportunities/ | report/* | run/ | tune/*) files=yes ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
	[[ -z $files ]] || COMPREPLY+=($(compgen -f -- "$current"))
}

complete -F _fusionctl fusionctl
