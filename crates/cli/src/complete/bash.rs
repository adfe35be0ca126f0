//! Completion in bash. Bash splits words at `:` and `=`, inserts suggestions unquoted, and expands them.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;
use prowess_catalog::untrusted::is_unprintable;

/// Completion in bash.
pub(super) struct Bash;

/// The script joins words that bash split, asks the program with everything up to the cursor, and quotes the
/// suggestions, which can be untrusted file names.
const SCRIPT: &str = r#"# Completion of BIN in bash.
_BIN_complete() {
    local line=${COMP_LINE:0:COMP_POINT} before='' word rest offered index left
    local -a typed=()
    rest=$line
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${rest#"${rest%%[![:space:]]*}"}
        if ((index == COMP_CWORD)); then
            left=''
        else
            left=${word#"${COMP_WORDS[index]}"}
            if [[ $left == "$word" && -n ${COMP_WORDS[index]} ]]; then
                return 0
            fi
            word=${COMP_WORDS[index]}
        fi
        if ((index > 0)) && [[ $rest == [![:space:]]* ]]; then
            before=${typed[-1]}
            typed[-1]+=$word
            if [[ $word == [:=]* && ${#word} -eq 1 && $index -eq COMP_CWORD ]]; then
                before=${typed[-1]}
            fi
        else
            before=''
            typed+=("$word")
        fi
        rest=$left
    done
    local last=${typed[-1]}
    # Leave text with quotes to the user.
    if [[ $last == *[\'\"\\\$\`]* ]]; then
        return 0
    fi
    COMPREPLY=()
    while IFS= read -r offered; do
        offered=${offered#"$before"}
        case $offered in
            '~/'*) printf -v offered '~/%q' "${offered#'~/'}" ;;
            *) printf -v offered %q "$offered" ;;
        esac
        COMPREPLY+=("$offered")
    done < <(VAR=bash "COMPLETER" -- "${typed[@]}" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/:] ]]; then
        compopt -o nospace
    fi
}
# Old versions of bash do not know nosort.
complete -o bashdefault -o nosort -F _BIN_complete BIN 2>/dev/null || complete -o bashdefault -F _BIN_complete BIN
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _: &str,
        program: &str,
        completer: &str,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        let script = SCRIPT.replace("COMPLETER", completer).replace("BIN", program).replace("VAR", variable);
        out.write_all(script.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        directory: Option<&Path>,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        // The script passes only the words before the cursor, so the last one is completed.
        let last = words.len().saturating_sub(1);
        let wants_option = words.last().is_some_and(|word| word.as_encoded_bytes().starts_with(b"-"));
        let all = complete(command, words, last, directory)?;
        let mut offered: Vec<_> = all.iter().map(|one| one.get_value().to_string_lossy()).collect();
        // A name with a line break would become two.
        offered.retain(|word| !word.chars().any(is_unprintable));
        let is_option = |word: &str| word.starts_with('-');
        if !wants_option && offered.iter().any(|word| !is_option(word)) {
            // Bash lists everything together, and options would hide the rest.
            offered.retain(|word| !is_option(word));
        }
        offered.iter().try_for_each(|word| writeln!(out, "{word}"))
    }
}
