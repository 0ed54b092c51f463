# Completion of quietus for bash: `source <(quietus completions bash)`. The program itself says what fits.

_quietus() {
    # Bash breaks words at COMP_WORDBREAKS, such as vm1@before at the @: what no blank separates is one word.
    local rest=${COMP_LINE:0:COMP_POINT} words=() word i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if ((i == 0)) || [[ $rest == [[:blank:]]* ]]; then
            rest=${rest#"${rest%%[![:blank:]]*}"}
            words+=("")
        fi
        # The last word ends at the cursor.
        word=$rest
        ((i < COMP_CWORD)) && word=${COMP_WORDS[i]}
        words[${#words[@]} - 1]+=$word
        rest=${rest#"$word"}
    done
    local current=${words[${#words[@]} - 1]} index=$((${#words[@]} - 1)) between=$'\013'
    IFS=$between read -r -d '' -a COMPREPLY < <(
        _CLAP_IFS=$between _CLAP_COMPLETE_INDEX=$index COMPLETE=bash quietus -- "${words[@]}" 2> /dev/null
    )
    # Bash replaces only what follows the last break, $2.
    COMPREPLY=("${COMPREPLY[@]#"${current%"$2"}"}")
    if [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[=/:@.] ]]; then
        compopt +o nospace 2> /dev/null
    fi
}
complete -o nospace -o bashdefault -o nosort -F _quietus quietus 2> /dev/null || complete -o bashdefault -F _quietus quietus
