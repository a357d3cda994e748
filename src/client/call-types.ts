// NoInfer: the definition alone decides the type, or a wrong argument would widen it instead of being refused.

/** The arguments of `start` after the definition: the input may be left out where `undefined` is one. */
export type StartArguments<Input, Options = StartOptions> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];

/** The arguments of `raiseEvent` after the event: the payload may be left out where `undefined` is one. */
export type EventArguments<Value> = undefined extends Value
  ? [payload?: NoInfer<Value>]
  : [payload: NoInfer<Value>];

/** How an instance is started. */
export interface StartOptions {
  /** Chosen by the caller, so that the same start made twice is one instance. Default: generated. */
  readonly id?: string | undefined;
  /** The version to run on. Default: that of the definition; for a plain name the newest that a worker has. */
  readonly version?: string | undefined;
}

/** How a run of a flow is started. */
export interface RunFlowOptions extends StartOptions {
  /** That of its steps that have none of their own: from 0 to 100, higher first. Default 0. */
  readonly priority?: number | undefined;
}
