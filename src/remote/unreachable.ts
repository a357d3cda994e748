import { ProviderError } from '../model/errors.ts';

/** The server could not be reached, would not take the call now, or its answer was lost: asking again may help. */
export class Unreachable extends ProviderError {
  /** How long the server asks to be left alone. */
  readonly waitMs: number;

  constructor(options: {
    readonly operation: string;
    readonly message: string;
    /** Whether the call may have been done all the same. */
    readonly outcomeUnknown: boolean;
    readonly waitMs?: number;
    readonly cause?: unknown;
  }) {
    super({ ...options, retryable: true });
    this.name = ProviderError.name;
    this.waitMs = options.waitMs ?? 0;
  }
}

const neverSent: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Whether a failed `fetch` says that there was no connection at all; browsers never say. */
export function wasNeverSent(error: unknown): boolean {
  const { cause } = (error ?? {}) as { readonly cause?: { readonly code?: unknown } | null };
  return neverSent.has(cause?.code);
}
