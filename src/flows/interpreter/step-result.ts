/** What the activity of a step answers: the handler's output, or that the flow is complete with it. */
export type StepResult =
  | { readonly output?: unknown; readonly attempt?: number }
  | { readonly early: true; readonly output?: unknown; readonly reason: string };

/** What a reduce is given for one batch. */
export interface ReduceInput {
  readonly accumulator?: unknown;
  readonly items: readonly unknown[];
  /** The place of the first of these items. */
  readonly offset: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** What the handler of an item is given. */
export interface ItemInput {
  readonly item?: unknown;
  readonly index: number;
  readonly inputs?: Readonly<Record<string, unknown>>;
}

/** Items that a generator reports; `offset` is the place of the first. */
export interface GeneratedItems {
  readonly offset: number;
  readonly items: readonly unknown[];
}
