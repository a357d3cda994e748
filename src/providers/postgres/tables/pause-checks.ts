/** Which definitions a statement checks for a pause. `any`: all of the store. `own`: those that it reads or writes. */
export type PauseCheck = 'any' | 'own';

/** The part of a result that shows whether the check was sufficient. */
interface Checked {
  /** Whether any definition of the store is paused. */
  readonly hasPaused: boolean;
  /** Of a statement that writes: whether it wrote. */
  readonly ok?: boolean;
}

/**
 * Chooses between two statements that differ in their pause check. `any` only reads whether a table is empty. `own` also
 * reads definitions, which costs up to a third of a statement even if nothing is paused. So `own` is sent only while a
 * definition is paused.
 */
export class PauseChecks<Statement> {
  readonly #statements: Readonly<Record<PauseCheck, Statement>>;
  #check: PauseCheck = 'any';

  constructor(prepare: (check: PauseCheck) => Statement) {
    this.#statements = { any: prepare('any'), own: prepare('own') };
  }

  /** Sends a statement. If that was `any` and a definition is paused, also sends `own`. */
  async run<Result extends Checked>(
    send: (statement: Statement) => Promise<Result | undefined>,
  ): Promise<Result | undefined> {
    const check = this.#check;
    const result = await send(this.#statements[check]);
    if (result === undefined) return undefined;
    this.#check = result.hasPaused ? 'own' : 'any';
    const isUndecided = check === 'any' && result.hasPaused && result.ok !== true;
    return isUndecided ? send(this.#statements.own) : result;
  }
}
