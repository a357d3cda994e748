/**
 * The arguments after a definition: the input may be left out when its type allows `undefined`. NoInfer: the
 * definition alone decides the type, or a wrong input would widen it instead of being refused.
 */
export type InputArguments<Input, Options> = undefined extends Input
  ? [input?: NoInfer<Input>, options?: Options]
  : [input: NoInfer<Input>, options?: Options];
