/** Makes calls for the same key in the order in which they were requested, although each first waits for its arguments. */
export class CallOrder {
  /** The last call of each key. */
  readonly #last = new Map<string, Promise<unknown>>();

  /** Calls `call` as soon as its arguments are ready and earlier calls for any of its keys were made or have failed. */
  async run<Arguments, Result>(
    keys: readonly string[],
    prepared: Promise<Arguments>,
    call: (prepared: Arguments) => Promise<Result>,
  ): Promise<Result> {
    const earlier = keys.map((key) => this.#last.get(key));
    let result: Promise<Result> | undefined;
    const made = Promise.allSettled([prepared, ...earlier]).then(async () => {
      result = call(await prepared);
    });
    for (const key of keys) this.#last.set(key, made);
    try {
      await made;
    } finally {
      for (const key of keys) if (this.#last.get(key) === made) this.#last.delete(key);
    }
    return await (result as Promise<Result>);
  }
}
