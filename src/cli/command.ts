import type { ClientSurface } from '../client/client.ts';
import type { TargetChoice } from './target/choose-target.ts';

/**
 * The exit codes of the command line. 0: done, 1: failed, 2: usage, 3: not found, 4: refused, 5: unreachable, 6: timeout,
 * 7: the instance did not complete, 8: doctor found problems, 130: interrupted.
 */
export type ExitCode = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 130;

/** A positional argument. */
export interface Operand {
  readonly name: string;
  readonly summary: string;
  readonly optional?: true;
  /** Takes all remaining arguments. Only for the last operand. */
  readonly many?: true;
}

/**
 * The value of an option. `time` is an ISO date or a duration, which means that long ago. `json` is JSON text, `@file`, or
 * `-` for the standard input. A list allows only its members.
 */
type OptionValue = 'text' | 'number' | 'duration' | 'time' | 'json' | 'path' | readonly string[];

/** An option of a command. An option name is a flag in all commands, or takes a value in all of them. */
export interface Option {
  readonly name: string;
  readonly short?: string;
  /** Absent: a flag. */
  readonly value?: OptionValue;
  /** What to call the value in help. Default: the kind of value. */
  readonly placeholder?: string;
  /** Can be repeated. */
  readonly many?: true;
  readonly summary: string;
}

/** A command of the table. Help, completion and the reference are made of it. */
export interface Command {
  /** One or two words: `list`, `schedules pause`. */
  readonly name: string;
  readonly group: 'start' | 'look' | 'steer' | 'keep' | 'tools';
  readonly summary: string;
  readonly operands: readonly Operand[];
  readonly options: readonly Option[];
  /** Complete command lines. Each parses. */
  readonly examples: readonly string[];
  /** `store`: opens a store. `target`: opens a store or connects to a server. */
  readonly needs: 'store' | 'target' | 'none';
  /** `write`: the command changes something, so it goes on if the reader of its output ends. `read`: it ends then. */
  readonly access: 'read' | 'write';
  /**
   * The command handles Ctrl-C itself: it ends after `terminal.interrupted` aborts. Default: the command line ends
   * immediately with exit code 130.
   */
  readonly handlesInterrupt?: true;
  load(): Promise<{ readonly run: (call: Call) => Promise<ExitCode> }>;
}

/** The options of a call, checked. Accessors throw if the command has no such option. */
export interface ParsedOptions {
  has(name: string): boolean;
  flag(name: string): boolean;
  text(name: string): string | undefined;
  number(name: string): number | undefined;
  list(name: string): readonly string[];
  /** A date, or a duration before now as text. */
  time(name: string): Date | string | undefined;
  /** Parses JSON text, the file of `@file`, or the standard input for `-`. `undefined` if the option is absent. */
  json(name: string): Promise<unknown>;
}

/** One call of a command. */
export interface Call {
  /** The arguments as they were given, to repeat the call. */
  readonly argv: readonly string[];
  /** The table of commands. */
  readonly commands: readonly Command[];
  readonly command: Command;
  readonly operands: readonly string[];
  readonly options: ParsedOptions;
  readonly terminal: Terminal;
  /** Whether to print JSON. */
  readonly json: boolean;
  /** The store or server that the options, the environment and the profiles choose. Opens nothing. */
  choose(): TargetChoice;
  /** Opens the chosen store or server, without migrating it. Closed after the command. The second call returns the same. */
  open(): Promise<Target>;
}

/** An open store or a connection to a server. */
export interface Target {
  readonly client: ClientSurface;
  readonly choice: TargetChoice;
  /** The name in messages, without secrets. */
  readonly label: string;
}

/** Styles of text. */
export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'blue' | 'magenta' | 'cyan';

/** A stream of the terminal. */
export interface Output {
  readonly isTTY: boolean;
  readonly colour: boolean;
  /** The width in characters; `Infinity` without a terminal. */
  readonly columns: number;
  readonly rows: number;
  write(text: string): void;
  /** Adds a style if the stream shows colours. */
  style(style: Style, text: string): string;
}

/** A bar of progress on the standard error. Draws nothing without a terminal. */
export interface Progress {
  update(done: number, total?: number): void;
  /** Removes the bar. */
  end(): void;
}

/** The surroundings of a call. Data goes to `stdout`, messages go to `stderr`. */
export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  /** Whether a person can answer: the standard input and the standard error are terminals. */
  readonly interactive: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The working directory. Empty if it was deleted: then no command runs. */
  readonly cwd: string;
  /** `undefined` if there is no home directory. */
  readonly home: string | undefined;
  /** Aborts on Ctrl-C and on SIGTERM. */
  readonly interrupted: AbortSignal;
  readStdin(): Promise<string>;
  /** Reads a line. The question is written to the standard error. */
  ask(question: string): Promise<string>;
  /**
   * Asks for the confirmation of a dangerous action. Above 100 instances, the answer is the number. Throws a refusal if the
   * answer is another one, or if no person can answer.
   */
  confirm(question: string, options?: { readonly count?: number }): Promise<void>;
  progress(label: string): Progress;
  /** Goes on without the standard output if its reader ends. Default: the process ends with exit code 0. */
  outliveReader(): void;
}
