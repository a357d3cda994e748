/** What the operator fills in. Texts are as typed. */
export interface ActionInput {
  readonly reason: string;
  /** `5m`; empty: the default. */
  readonly cleanupTimeout: string;
  readonly tree: boolean;
  readonly from: 'failure' | 'start';
  /** The event to fork after; empty: by `from`. */
  readonly fromEvent: string;
  readonly newId: string;
  readonly eventName: string;
  /** JSON text; empty: none. */
  readonly payload: string;
  readonly definition: string;
  readonly keepLast: string;
}

export const emptyInput: ActionInput = {
  reason: '',
  cleanupTimeout: '',
  tree: false,
  from: 'failure',
  fromEvent: '',
  newId: '',
  eventName: '',
  payload: '',
  definition: '',
  keepLast: '1',
};

/** Parses a JSON text; empty is no value. Throws `SyntaxError`. */
export function parsePayload(text: string): { readonly value?: unknown } {
  return text.trim() === '' ? {} : { value: JSON.parse(text) as unknown };
}

/** Why a JSON text cannot be sent; `undefined` if it can. */
export function payloadProblem(text: string): string | undefined {
  try {
    parsePayload(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? `Not valid JSON: ${error.message}` : 'Not valid JSON';
  }
}
