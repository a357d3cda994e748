import { parseArgs } from 'node:util';
import { closestName } from '../model/closest-name.ts';
import { usage, type CliError } from './cli-error.ts';
import type { Command, Option, ParsedOptions, Terminal } from './command.ts';
import { readJson } from './read-json.ts';
import { optionsOf } from './shared-options.ts';

/** A parsed command line. */
export interface ParsedCall {
  readonly command: Command;
  readonly operands: readonly string[];
  readonly options: ParsedOptions;
}

/** A request for help: of a command, of the commands that begin with a word, or of all. */
export interface HelpRequest {
  readonly help: Command | string | undefined;
}

type Terminals = Pick<Terminal, 'cwd' | 'readStdin'>;

interface GivenOption {
  readonly name: string;
  readonly rawName: string;
  readonly value: string | undefined;
  readonly inline: boolean | undefined;
}

/** Parses a command line. Throws a usage error with the near miss. */
export function parseArguments(
  argv: readonly string[],
  commands: readonly Command[],
  terminal: Terminals,
): ParsedCall | HelpRequest {
  const { given, words } = split(argv, commands);
  const wantsHelp = given.some(({ name }) => name === 'help') || words[0] === 'help';
  const path = words[0] === 'help' ? words.slice(1) : words;
  if (given.some(({ name }) => name === 'version') && path.length === 0) {
    return parseArguments(['version'], commands, terminal);
  }
  if (path.length === 0) {
    const other = given.find(({ name }) => name !== 'help');
    if (other !== undefined && !wantsHelp) {
      const known = commands.flatMap(optionsOf).some(({ name }) => name === other.name);
      if (!known) throw unknownOption(other, commands.flatMap(optionsOf), 'perdure');
      throw usage('No command given.', 'Run `perdure --help` to see all commands.');
    }
    return { help: undefined };
  }
  const command = findCommand(path, commands);
  if (isUnknownInGroup(path, command, commands)) throw unknownCommand(path, commands);
  if (wantsHelp) {
    // The letters of an id such as -dash are options, too, and -h is one of them.
    const known = command === undefined ? [] : optionsOf(command);
    const isKnown = (one: GivenOption) => known.some(({ name }) => name === one.name);
    const letter = given.find((one) => !one.rawName.startsWith('--') && !isKnown(one));
    if (command !== undefined && letter !== undefined) {
      throw unknownOption(letter, known, `perdure ${command.name}`);
    }
    return { help: command ?? groupWord(path, commands) };
  }
  if (command === undefined) throw unknownCommand(path, commands);
  const operands = path.slice(wordsOf(command, path));
  // Before the operands: the value of an unknown option would be an unexpected argument.
  const options = readOptions(command, given, terminal);
  checkOperands(command, operands);
  return { command, operands, options };
}

/** Reads words and options with one set of definitions, so that options may precede the command. */
function split(
  argv: readonly string[],
  commands: readonly Command[],
): { readonly given: readonly GivenOption[]; readonly words: readonly string[] } {
  const options = Object.fromEntries(
    commands.flatMap(optionsOf).map(({ name, short, value }) => [
      name,
      {
        type: value === undefined ? ('boolean' as const) : ('string' as const),
        ...(short !== undefined && { short }),
      },
    ]),
  );
  const { tokens } = parseArgs({
    args: [...argv],
    options: { ...options, version: { type: 'boolean', short: 'V' } },
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given: GivenOption[] = [];
  const words: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') words.push(token.value);
    if (token.kind === 'option') {
      const { name, rawName, value, inlineValue } = token;
      given.push({ name, rawName, value, inline: inlineValue });
    }
  }
  return { given, words };
}

/** Finds the command with the most words. A word that only groups commands means its `list`. */
function findCommand(path: readonly string[], commands: readonly Command[]): Command | undefined {
  const byName = (name: string) => commands.find((command) => command.name === name);
  const [first = '', second] = path;
  const exact = second === undefined ? undefined : byName(`${first} ${second}`);
  if (exact !== undefined) return exact;
  return byName(first) ?? (second === undefined ? byName(`${first} list`) : undefined);
}

/** Whether the second word must be a command of a group, and is none: `schedules trigerr`, `retention rnu`. */
function isUnknownInGroup(
  path: readonly string[],
  command: Command | undefined,
  commands: readonly Command[],
): boolean {
  const [first = '', second] = path;
  const isGroup = commands.some(({ name }) => name.startsWith(`${first} `));
  if (!isGroup || second === undefined) return false;
  return command === undefined || (command.name === first && command.operands.length === 0);
}

/** How many words of the path name the command. */
function wordsOf(command: Command, path: readonly string[]): number {
  const words = command.name.split(' ');
  return words.every((word, index) => path[index] === word) ? words.length : 1;
}

function groupWord(path: readonly string[], commands: readonly Command[]): string {
  const [word = ''] = path;
  if (commands.some(({ name }) => name.startsWith(`${word} `))) return word;
  throw unknownCommand(path, commands);
}

function unknownCommand(path: readonly string[], commands: readonly Command[]): CliError {
  const [first = '', second] = path;
  const inGroup = commands.filter(({ name }) => name.startsWith(`${first} `));
  const seconds = inGroup.map(({ name }) => name.slice(first.length + 1));
  if (inGroup.length > 0 && second === undefined) {
    return usage(
      `Missing command after \`perdure ${first}\`.`,
      `Commands of \`${first}\`: ${seconds.join(', ')}.`,
    );
  }
  if (inGroup.length > 0 && second !== undefined) {
    const near = closestName(second, seconds);
    return usage(
      `Unknown command ${JSON.stringify(`${first} ${second}`)}.${near === undefined ? '' : ` Did you mean \`perdure ${first} ${near}\`?`}`,
      `Commands of \`${first}\`: ${seconds.join(', ')}.`,
    );
  }
  const firsts = [...new Set(commands.map(({ name }) => name.split(' ')[0] ?? ''))];
  const near = closestName(first, firsts);
  return usage(
    `Unknown command ${JSON.stringify(first.slice(0, 80))}.${near === undefined ? '' : ` Did you mean \`perdure ${near}\`?`}`,
    'Run `perdure --help` to see all commands.',
  );
}

function checkOperands(command: Command, operands: readonly string[]): void {
  const missing = command.operands[operands.length];
  if (missing !== undefined && missing.optional !== true) {
    throw usage(`Missing <${missing.name}>: ${missing.summary}.`, helpOf(command));
  }
  const takesMany = command.operands.at(-1)?.many === true;
  const extra = operands[command.operands.length];
  if (extra === undefined || takesMany) return;
  throw usage(
    `Unexpected argument ${JSON.stringify(extra.slice(0, 80))} of \`perdure ${command.name}\`.`,
    helpOf(command),
  );
}

function helpOf(command: Command): string {
  return `Run \`perdure ${command.name} --help\` for its arguments.`;
}

const secretNames: ReadonlySet<string> = new Set(['token', 'password', 'secret', 'api-key']);

function unknownOption(given: GivenOption, known: readonly Option[], where: string): CliError {
  if (secretNames.has(given.name) && given.rawName.startsWith('--')) {
    return usage(
      `There is no option --${given.name}: other users of this machine can read arguments.`,
      'Pass the token of a server in PERDURE_TOKEN or with --token-file, and the URL of a store in PERDURE_STORE.',
    );
  }
  const near = closestName(
    given.name,
    known.map(({ name }) => name),
  );
  const hint = near === undefined || given.name.length === 1 ? '' : ` Did you mean --${near}?`;
  return usage(
    `Unknown option ${given.rawName.slice(0, 80)} of \`${where}\`.${hint}`,
    given.rawName.startsWith('--')
      ? `Run \`${where} --help\` for its options.`
      : `Write -- before an argument that begins with -. Run \`${where} --help\` for the options.`,
  );
}

function readOptions(
  command: Command,
  given: readonly GivenOption[],
  terminal: Terminals,
): ParsedOptions {
  const known = optionsOf(command);
  const values = new Map<string, string[]>();
  for (const one of given) {
    const option = known.find(({ name }) => name === one.name);
    if (option === undefined) throw unknownOption(one, known, `perdure ${command.name}`);
    const value = readValue(option, one);
    const before = values.get(option.name);
    if (before !== undefined && option.many !== true && option.value !== undefined) {
      throw usage(`Option ${one.rawName} was given twice. Pass it once.`);
    }
    values.set(option.name, [...(before ?? []), value]);
  }
  return new CheckedOptions(command, values, terminal);
}

const durationPattern = /^\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)$/;

function readValue(option: Option, { rawName, value, inline }: GivenOption): string {
  const { value: kind } = option;
  if (kind === undefined) {
    if (value === undefined) return '';
    throw usage(`Option ${rawName} takes no value.`);
  }
  // A lone - is the standard input.
  const looksLikeOption = inline === false && value !== undefined && /^-[^\d]/.test(value);
  if (value === undefined || looksLikeOption) {
    throw usage(
      `Option ${rawName} needs a value.`,
      looksLikeOption ? `For a value that begins with -, write ${rawName}=${value}.` : undefined,
    );
  }
  checkValue(option, rawName, value);
  return value;
}

function checkValue({ value: kind, many }: Option, rawName: string, value: string): void {
  const wrong = (expected: string) =>
    usage(`Invalid ${rawName} ${JSON.stringify(value.slice(0, 80))}: use ${expected}.`);
  if (typeof kind === 'object') {
    if (kind.includes(value)) return;
    if (many === true && value.includes(',')) {
      throw usage(
        `Invalid ${rawName} ${JSON.stringify(value.slice(0, 80))}: pass one value.`,
        `Repeat ${rawName} for several values. Valid ones: ${kind.join(', ')}.`,
      );
    }
    const near = closestName(value, kind);
    throw near === undefined
      ? wrong(`one of ${kind.join(', ')}`)
      : usage(
          `Invalid ${rawName} ${JSON.stringify(value)}. Did you mean ${near}?`,
          `Valid values: ${kind.join(', ')}.`,
        );
  }
  if (kind === 'number' && (value.trim() === '' || !Number.isFinite(Number(value)))) {
    throw wrong('a number');
  }
  if (kind === 'duration' && !durationPattern.test(value.trim())) {
    throw wrong('a duration such as 30s, 5m or 1h');
  }
  if (kind === 'time' && readTime(value) === undefined) {
    throw wrong('a date such as 2026-11-17T08:00:00Z, or a duration such as 1h for an hour ago');
  }
}

function readTime(value: string): Date | string | undefined {
  if (durationPattern.test(value.trim())) return value.trim();
  const isDate = /^\d{4}-\d{2}-\d{2}/.test(value) && !Number.isNaN(Date.parse(value));
  return isDate ? new Date(value) : undefined;
}

class CheckedOptions implements ParsedOptions {
  readonly #command: Command;
  readonly #values: ReadonlyMap<string, readonly string[]>;
  readonly #terminal: Terminals;

  constructor(
    command: Command,
    values: ReadonlyMap<string, readonly string[]>,
    terminal: Terminals,
  ) {
    this.#command = command;
    this.#values = values;
    this.#terminal = terminal;
  }

  has(name: string): boolean {
    return this.#read(name).length > 0;
  }

  flag(name: string): boolean {
    return this.has(name);
  }

  text(name: string): string | undefined {
    return this.#read(name)[0];
  }

  number(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : Number(text);
  }

  list(name: string): readonly string[] {
    return this.#read(name);
  }

  time(name: string): Date | string | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : readTime(text);
  }

  async json(name: string): Promise<unknown> {
    const text = this.text(name);
    return text === undefined ? undefined : readJson(text, `--${name}`, this.#terminal);
  }

  #read(name: string): readonly string[] {
    const known = optionsOf(this.#command).some((option) => option.name === name);
    if (!known) throw new Error(`Command ${this.#command.name} has no option --${name}.`);
    return this.#values.get(name) ?? [];
  }
}
