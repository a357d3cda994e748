/** A refused request, or a server that cannot be reached (`status` 0). */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  /** Finds the request in the log of the server. */
  readonly requestId: string | undefined;

  constructor(status: number, code: string, message: string, requestId?: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }

  /** Whether the server gave no answer. */
  get isUnreachable(): boolean {
    return this.status === 0;
  }
}

/** Converts a response with an error body. */
export async function readError(response: Response): Promise<ApiError> {
  const text = await response.text().catch(() => '');
  try {
    const { error, requestId } = JSON.parse(text) as {
      error?: { code?: string; message?: string };
      requestId?: string;
    };
    if (typeof error?.message === 'string') {
      return new ApiError(response.status, error.code ?? 'UNKNOWN', error.message, requestId);
    }
  } catch {
    // Not written by Perdure: a proxy, or a server of another version.
  }
  return new ApiError(
    response.status,
    'UNEXPECTED_RESPONSE',
    `The server answered with status ${response.status}.`,
  );
}
