/** The arguments after a definition: the input may be left out when its type allows `undefined`. */
export type InputArguments<Input, Options> = undefined extends Input
  ? [input?: Input, options?: Options]
  : [input: Input, options?: Options];
