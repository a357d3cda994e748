/** Identifies a call that starts instances, for callers that repeat it after its outcome was lost. */
export interface StartAttempt {
  /** The same for all attempts of a call. It becomes the incarnation of the instance. */
  readonly startKey?: string | undefined;
  /** Whether an earlier attempt may have created the instance. The instance may have been deleted since. */
  readonly isRepeat?: boolean | undefined;
}

/** The attempt of a call, as a server receives it. */
export interface WireAttempt {
  readonly startKey?: string | undefined;
  readonly repeat?: boolean | undefined;
}

// Not a public option: only a server, which passes on the attempts of its clients, sets it.
const attemptOption = Symbol('start attempt');

/** Adds the attempt of a request to the options of a start. */
export function withAttempt<Options extends WireAttempt>(
  options: Options,
): Omit<Options, keyof WireAttempt> {
  const { startKey, repeat, ...rest } = options;
  const attempt: StartAttempt = {
    ...(startKey !== undefined && { startKey }),
    ...(repeat === true && { isRepeat: true }),
  };
  return { ...rest, [attemptOption]: attempt };
}

/** Reads the attempt that `withAttempt` added to options. */
export function readAttempt(options: unknown): StartAttempt {
  return (
    (options as { readonly [attemptOption]?: StartAttempt } | undefined)?.[attemptOption] ?? {}
  );
}
