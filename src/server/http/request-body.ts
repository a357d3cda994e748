import { ChunkedUtf8Decoder } from '../../model/values/chunked-utf8-decoder.ts';
import type { HeldBytes } from './byte-budget.ts';
import { invalidRequest, Refusal } from './refusal.ts';

/** Reads the body of a request as JSON, within a limit; its bytes are held until the caller releases them. */
export async function readJson(
  request: Request,
  limitBytes: number,
  held: HeldBytes,
): Promise<unknown> {
  checkKind(request.headers);
  const announced = Number(request.headers.get('content-length') ?? 0);
  if (announced > limitBytes) throw tooLarge(limitBytes);
  return parse(await readText(request, limitBytes, held));
}

function checkKind(headers: Headers): void {
  const type = headers.get('content-type') ?? '';
  const isJson = /^application\/json\s*(;\s*charset=utf-8\s*)?$/i.test(type);
  if (isJson && !headers.has('content-encoding')) return;
  throw new Refusal('NOT_JSON', 'Send JSON, as Content-Type: application/json, not compressed.', {
    status: 415,
  });
}

async function readText(request: Request, limitBytes: number, held: HeldBytes): Promise<string> {
  // Bytes that are no UTF-8 would else be replaced silently.
  const text = new ChunkedUtf8Decoder({ fatal: true });
  let bytes = 0;
  try {
    for await (const chunk of request.body ?? []) {
      bytes += chunk.byteLength;
      if (bytes > limitBytes) throw tooLarge(limitBytes);
      // Counted as they arrive: a length that is only announced takes nothing from other requests.
      held.add(chunk.byteLength);
      text.add(chunk);
    }
    return text.end();
  } catch (error) {
    if (error instanceof TypeError) throw invalidRequest('The body is not valid UTF-8.');
    throw error;
  }
}

function parse(text: string): unknown {
  try {
    // The key may be spelled with escapes. A reviver costs several times the parsing, so it is only used when needed.
    const isSuspicious = text.includes('__proto__') || text.includes('\\u');
    return isSuspicious ? JSON.parse(text, refuseProto) : JSON.parse(text);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw invalidRequest('The body is not valid JSON.');
  }
}

function refuseProto(key: string, value: unknown): unknown {
  if (key === '__proto__') throw invalidRequest('The body has a key __proto__, which is refused.');
  return value;
}

function tooLarge(limitBytes: number): Refusal {
  return new Refusal(
    'BODY_TOO_LARGE',
    `The body is larger than ${limitBytes} bytes. Store large data elsewhere and pass a reference.`,
    { status: 413 },
  );
}
