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
    // In an object, so that awaiting it does not await the result of the call.
    const make = async (): Promise<{ readonly result: Promise<Result> }> => {
      await Promise.allSettled([prepared, ...earlier]);
      return { result: call(await prepared) };
    };
    const made = make();
    for (const key of keys) this.#last.set(key, made);
    let result: Promise<Result>;
    try {
      ({ result } = await made);
    } finally {
      for (const key of keys) if (this.#last.get(key) === made) this.#last.delete(key);
    }
    return await result;
  }
}
