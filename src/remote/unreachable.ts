import { ProviderError } from '../model/failures/errors.ts';

/** The server could not be reached, would not take the call now, or its answer was lost: asking again may help. */
export class Unreachable extends ProviderError {
  /** How long the server asks to be left alone. */
  readonly waitMs: number;
  /** Whether the server may have refused the origin of this page, which browsers do not tell from no answer. */
  readonly maybeOrigin: boolean;

  constructor(options: {
    readonly operation: string;
    readonly message: string;
    /** Whether the call may have been done all the same. */
    readonly outcomeUnknown: boolean;
    readonly waitMs?: number;
    readonly maybeOrigin?: boolean;
    readonly cause?: unknown;
  }) {
    super({ ...options, retryable: true });
    this.name = ProviderError.name;
    this.waitMs = options.waitMs ?? 0;
    this.maybeOrigin = options.maybeOrigin ?? false;
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

/** The origin of the page that this runs in, where it is another one than that of a server. */
export function foreignPageOrigin(baseUrl: string): string | undefined {
  const { location } = globalThis as { readonly location?: { readonly origin?: unknown } };
  const origin = location?.origin;
  // Only pages and their workers have a location of http.
  if (typeof origin !== 'string' || !/^https?:/.test(origin)) return undefined;
  return origin === new URL(baseUrl).origin ? undefined : origin;
}
