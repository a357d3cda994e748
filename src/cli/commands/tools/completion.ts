import { closestName } from '../../../model/closest-name.ts';
import { usage } from '../../cli-error.ts';
import type { Call, Command, ExitCode, Option } from '../../command.ts';
import { commonOptions, optionsOf, targetOptions } from '../../shared-options.ts';
import { writeJson } from '../../text/json.ts';

const scripts = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
  powershell: powershellScript,
} as const;

/** Prints the completion script of a shell. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, json, commands } = call;
  const [shell = ''] = call.operands;
  if (!Object.hasOwn(scripts, shell)) {
    const names = Object.keys(scripts);
    const near = closestName(shell, names);
    throw usage(
      `Unknown shell ${JSON.stringify(shell.slice(0, 80))}.${near === undefined ? '' : ` Did you mean ${near}?`}`,
      `Shells: ${names.join(', ')}.`,
    );
  }
  const script = scripts[shell as keyof typeof scripts](commands);
  if (json) writeJson(terminal.stdout, { shell, script });
  else terminal.stdout.write(script);
  return 0;
}

/** The words that can follow a command: for the empty command its first words, for a group its second words. */
function wordsAfter(table: readonly Command[], path: string): readonly string[] {
  const depth = path === '' ? 0 : 1;
  const names = table
    .map(({ name }) => name.split(' '))
    .filter((words) => words.length > depth && (path === '' || words[0] === path))
    .map((words) => words[depth] ?? '');
  return [...new Set(names)];
}

function groupsOf(table: readonly Command[]): readonly string[] {
  const [firsts, names] = [wordsAfter(table, ''), table.map(({ name }) => name)];
  return firsts.filter((first) => names.some((name) => name.startsWith(`${first} `)));
}

function flagsOf(command: Command): readonly string[] {
  return optionsOf(command).flatMap(({ name, short }) =>
    short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`],
  );
}

/** The options that may precede the command. */
const optionsBefore: readonly Option[] = [
  ...targetOptions({ needs: 'target' }),
  ...commonOptions,
  { name: 'version', summary: 'Print the versions of Perdure and Node.js' },
];

function flagsBefore(): readonly string[] {
  return optionsBefore.map(({ name }) => `--${name}`);
}

/** The options with a fixed list of values, over all commands. */
function choices(table: readonly Command[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>();
  for (const { name, value } of table.flatMap(optionsOf)) {
    if (typeof value !== 'object') continue;
    const values = found.get(name) ?? new Set();
    for (const one of value) values.add(one);
    found.set(name, values);
  }
  return new Map([...found].map(([name, values]) => [name, [...values]]));
}

function namesOf(table: readonly Command[], isWanted: (option: Option) => boolean) {
  return [
    ...new Set(
      table
        .flatMap(optionsOf)
        .filter(isWanted)
        .map(({ name }) => `--${name}`),
    ),
  ];
}

/** The options that take a value, long and short. The word after one is not part of the command. */
function valuedFlags(table: readonly Command[]): readonly string[] {
  const flags = table
    .flatMap(optionsOf)
    .filter(({ value }) => value !== undefined)
    .flatMap(({ name, short }) =>
      short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`],
    );
  return [...new Set(flags)];
}

const takesFile = ({ name, value }: Option): boolean => value === 'path' || name === 'store';
const takesText = (option: Option): boolean =>
  option.value !== undefined && typeof option.value === 'string' && !takesFile(option);

/** The cases of bash: what to complete after each command. */
function bashCases(table: readonly Command[]): string {
  const lines = table.map(
    (command) => `    '${command.name}') flags='${flagsOf(command).join(' ')}' ;;`,
  );
  return lines.join('\n');
}

function bashScript(table: readonly Command[]): string {
  const commandWords = wordsAfter(table, '').join(' ');
  const values = [...choices(table)]
    .map(
      ([name, list]) =>
        `    --${name}) COMPREPLY=($(compgen -W '${list.join(' ')}' -- "$current")); return ;;`,
    )
    .join('\n');
  const groups = groupsOf(table)
    .map((group) => `    ${group}) words='${wordsAfter(table, group).join(' ')}' ;;`)
    .join('\n');
  return `# Completion of perdure for bash. Load it with: source <(perdure completion bash)
_perdure() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local first='' second='' word index words='' flags=''
  for ((index = 1; index < COMP_CWORD; index++)); do
    word="\${COMP_WORDS[index]}"
    case "$word" in
    ${valuedFlags(table).join('|')}) index=$((index + 1)); continue ;;
    -*) continue ;;
    esac
    if [[ -z "$first" ]]; then first="$word"; elif [[ -z "$second" ]]; then second="$word"; fi
  done
  COMPREPLY=()
  # Bash splits --status=failed into three words.
  if [[ "$current" == '=' ]]; then current=''; previous="\${COMP_WORDS[COMP_CWORD-1]}"
  elif [[ "$previous" == '=' ]]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  case "$previous" in
${values}
    ${namesOf(table, takesFile).join('|')}) COMPREPLY=($(compgen -f -- "$current")); return ;;
    ${namesOf(table, takesText).join('|')}) return ;;
  esac
  if [[ -z "$first" ]]; then
    COMPREPLY=($(compgen -W '${commandWords} help ${flagsBefore().join(' ')}' -- "$current"))
    return
  fi
  case "$first" in
${groups}
    help) words='${commandWords}' ;;
    completion) words='bash zsh fish powershell' ;;
  esac
  case "$first $second" in
${bashCases(table.filter(({ name }) => name.includes(' ')))}
  esac
  [[ -z "$flags" ]] && case "$first" in
${bashCases(table.filter(({ name }) => !name.includes(' ')))}
  esac
  if [[ "$current" == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -n "$words" && -z "$second" ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  else
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}
complete -o filenames -F _perdure perdure
`;
}

/** Quotes a text for zsh and fish. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Quotes the parts that \`_arguments\` of zsh would interpret. */
function zshText(text: string): string {
  return text.replaceAll(/[[\]:\\]/g, String.raw`\$&`);
}

function zshOption({ name, short, value, many, summary }: Option): readonly string[] {
  const text = `[${zshText(summary)}]`;
  const action = value === undefined ? '' : `:value:${zshAction(name, value)}`;
  const repeat = many === true ? '*' : '';
  // `--status failed` and `--status=failed`.
  const equals = value === undefined ? '' : '=';
  const long = quoted(`${repeat}--${name}${equals}${text}${action}`);
  return short === undefined ? [long] : [long, quoted(`${repeat}-${short}${text}${action}`)];
}

function zshAction(name: string, value: NonNullable<Option['value']>): string {
  if (typeof value === 'object') return `(${value.join(' ')})`;
  return value === 'path' || name === 'store' ? '_files' : ' ';
}

function zshScript(table: readonly Command[]): string {
  const described = (words: readonly string[], prefix: string) =>
    words
      .map((word) => {
        const name = prefix === '' ? word : `${prefix} ${word}`;
        const summary = table.find((command) => command.name === name)?.summary;
        return `    ${quoted(`${word}:${zshText(summary ?? `Commands of ${word}`)}`)}`;
      })
      .join('\n');
  const cases = table
    .map(
      (command) =>
        `    ${quoted(command.name)}) _arguments -s ${optionsOf(command).flatMap(zshOption).join(' ')} '*:argument:_files' ;;`,
    )
    .join('\n');
  const groups = groupsOf(table)
    .map(
      (group) => `    ${group})
      if (( $#given == 1 )) && [[ "$words[CURRENT]" != -* ]]; then
        commands=(
${described(wordsAfter(table, group), group)}
        )
        _describe command commands
        return
      fi
      (( $#given > 1 )) && [[ " ${wordsAfter(table, group).join(' ')} " == *" $given[2] "* ]] && name="$given[1] $given[2]" ;;`,
    )
    .join('\n');
  return `#compdef perdure
# Completion of perdure for zsh. Load it with: source <(perdure completion zsh)
_perdure() {
  local -a commands given
  local name word
  local -i skips=0
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if (( skips )); then skips=0; continue; fi
    case "$word" in
    ${valuedFlags(table).join('|')}) skips=1 ;;
    -*) ;;
    *) given+=("$word") ;;
    esac
  done
  if (( skips == 0 && $#given == 0 )) && [[ "$words[CURRENT]" != -* ]]; then
    commands=(
${described(wordsAfter(table, ''), '')}
    )
    _describe command commands
    return
  fi
  name="$given[1]"
  case "$given[1]" in
${groups}
    help)
      commands=(
${described(wordsAfter(table, ''), '')}
      )
      (( $#given == 1 )) && _describe command commands
      return ;;
    completion) _values shell bash zsh fish powershell; return ;;
  esac
  case "$name" in
    '') _arguments -s ${optionsBefore.flatMap(zshOption).join(' ')} '*:argument:_files' ;;
${cases}
  esac
}
# A file in $fpath is loaded at the first completion. Otherwise, register the function.
if [[ "$funcstack[1]" == _perdure ]]; then
  _perdure "$@"
else
  (( $+functions[compdef] )) || { autoload -Uz compinit; compinit -i }
  compdef _perdure perdure
fi
`;
}

function fishOption(condition: string, { name, short, value, summary }: Option): string {
  const files = value === 'path' || name === 'store' ? ' -r -F' : ' -x';
  return [
    `complete -c perdure -n ${quoted(condition)} -l ${name}`,
    short === undefined ? '' : ` -s ${short}`,
    value === undefined ? ' -f' : files,
    typeof value === 'object' ? ` -a ${quoted(value.join(' '))}` : '',
    ` -d ${quoted(summary)}`,
  ].join('');
}

function fishScript(table: readonly Command[]): string {
  const lines = wordsAfter(table, '').map((word) => {
    const summary = table.find(({ name }) => name === word)?.summary ?? `Commands of ${word}`;
    return `complete -c perdure -f -n '__perdure_at' -a ${word} -d ${quoted(summary)}`;
  });
  for (const group of groupsOf(table)) {
    for (const word of wordsAfter(table, group)) {
      const summary = table.find(({ name }) => name === `${group} ${word}`)?.summary ?? '';
      const condition = `__perdure_at ${group}`;
      lines.push(`complete -c perdure -f -n ${quoted(condition)} -a ${word} -d ${quoted(summary)}`);
    }
  }
  lines.push(
    `complete -c perdure -f -n '__perdure_at help' -a '${wordsAfter(table, '').join(' ')}'`,
  );
  lines.push(`complete -c perdure -f -n '__perdure_at completion' -a 'bash zsh fish powershell'`);
  lines.push(...optionsBefore.map((option) => fishOption('__perdure_none', option)));
  for (const command of table) {
    const others = table.filter(({ name }) => name.startsWith(`${command.name} `));
    const condition = [
      `__perdure_in ${command.name}`,
      ...others.map(({ name }) => `not __perdure_in ${name}`),
    ].join('; and ');
    lines.push(...optionsOf(command).map((option) => fishOption(condition, option)));
  }
  return `# Completion of perdure for fish. Load it with: perdure completion fish | source
function __perdure_words -d 'The words of the command line without options and their values'
  set -l skips 0
  set -l tokens (commandline -opc)
  for token in $tokens[2..-1]
    if test $skips = 1
      set skips 0
      continue
    end
    switch $token
      case ${valuedFlags(table).join(' ')}
        set skips 1
      case '-*'
      case '*'
        echo -- $token
    end
  end
  # The word after an option with a value is not a command.
  test $skips = 0
end
function __perdure_at -d 'Whether the command line has exactly these words'
  set -l words (__perdure_words); or return 1
  test "$words" = "$argv"
end
function __perdure_none -d 'Whether the command line has no words yet'
  set -l words (__perdure_words)
  test (count $words) -eq 0
end
function __perdure_in -d 'Whether the command line begins with these words'
  set -l words (__perdure_words)
  set -l count (count $argv)
  test (count $words) -ge $count; and test "$words[1..$count]" = "$argv"
end
${lines.join('\n')}
`;
}

function powershellScript(table: readonly Command[]): string {
  const list = (words: readonly string[]) => words.map((word) => `'${word}'`).join(', ');
  const flags = table
    .map((command) => `    '${command.name}' = @(${list(flagsOf(command))})`)
    .join('\n');
  const commandWords = list(wordsAfter(table, ''));
  const words = ['', ...groupsOf(table)]
    .map((path) => `    '${path}' = @(${list(wordsAfter(table, path))})`)
    .join('\n');
  const values = [...choices(table)]
    .map(([name, given]) => `    '--${name}' = @(${list(given)})`)
    .join('\n');
  return `# Completion of perdure for PowerShell. Load it with: perdure completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName perdure -ScriptBlock {
  param($wordToComplete, $commandAst, $cursorPosition)
  $flags = @{
${flags}
  }
  $words = @{
${words}
    'help' = @(${commandWords})
    'completion' = @('bash', 'zsh', 'fish', 'powershell')
  }
  $values = @{
${values}
  }
  $valued = @(${list(valuedFlags(table))})
  $given = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
  if ($wordToComplete -ne '') { $given = @($given | Select-Object -SkipLast 1) }
  $previous = if ($given.Count -gt 0) { $given[-1] } else { '' }
  $skips = $false
  $path = @($given | Where-Object {
    if ($skips) { $skips = $false; return $false }
    $skips = $valued -ccontains $_
    $_ -notlike '-*'
  })
  $first = if ($path.Count -gt 0) { $path[0] } else { '' }
  $name = if ($path.Count -gt 1 -and $flags.ContainsKey("$first $($path[1])")) { "$first $($path[1])" } else { $first }
  $found = if ($values.ContainsKey($previous)) { $values[$previous] }
    elseif ($valued -ccontains $previous) { @() }
    elseif ($wordToComplete -like '-*' -and $path.Count -eq 0) { @(${list(flagsBefore())}) }
    elseif ($wordToComplete -like '-*') { $flags[$name] }
    elseif ($path.Count -eq 0) { $words[''] }
    elseif ($path.Count -eq 1) { $words[$first] }
  $found | Where-Object { $_ -and $_ -like "$wordToComplete*" } | ForEach-Object {
    [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
  }
}
`;
}
