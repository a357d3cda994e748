import type { CreateTaskResult, NewTask } from '../../contract/tasks.ts';
import type { Connections, Statement } from '../driver/connection.ts';
import type { Definitions } from '../tables/definitions.ts';
import { Effects } from '../../shared/effects.ts';
import { insertTasksText, insertTasksValues, type InsertedTask } from '../tables/new-tasks.ts';
import { refusesData } from '../driver/postgres-errors.ts';

/** Creates task runs in one statement, which is its own transaction: for ids and keys that are free, and known names. */
export class PlainTasks {
  readonly #connections: Connections;
  readonly #definitions: Definitions;
  readonly #insert: Statement;

  constructor({
    connections,
    definitions,
    schema,
  }: {
    readonly connections: Connections;
    readonly definitions: Definitions;
    readonly schema: string;
  }) {
    this.#connections = connections;
    this.#definitions = definitions;
    this.#insert = {
      name: 'perdure_create_tasks_plainly',
      text: insertTasksText(schema, { strict: true }),
    };
  }

  /** Creates the runs, or answers `undefined` when they have to be created in another way. */
  async create(
    tasks: readonly NewTask[],
    nowParameter: number | null,
  ): Promise<
    { readonly results: readonly CreateTaskResult[]; readonly effects: Effects } | undefined
  > {
    const rows = tasks.flatMap((task) => {
      const definitionKey = this.#definitions.find({
        kind: 'task',
        name: task.name,
        version: null,
      });
      return definitionKey === undefined ? [] : [{ task, definitionKey }];
    });
    if (rows.length < tasks.length) return undefined;
    const inserted = await this.#run([nowParameter, ...insertTasksValues(rows)]);
    if (inserted === undefined) return undefined;
    const effects = new Effects();
    for (const { dueAt } of inserted) effects.due('work', dueAt);
    const results = inserted.map(({ instanceKey }): CreateTaskResult => ({
      kind: 'created',
      instanceKey,
    }));
    return { results, effects };
  }

  async #run(values: readonly unknown[]): Promise<readonly InsertedTask[] | undefined> {
    try {
      return await this.#connections.statement<InsertedTask>('createTasks', this.#insert, values);
    } catch (error) {
      // Something is taken, or one of them is at fault: found out in the other way.
      if (refusesData(error)) return undefined;
      throw error;
    }
  }
}
