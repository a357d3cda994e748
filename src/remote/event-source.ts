/** Reads the messages of an event stream: the data of each, and the name of its event. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
  { limitBytes, idleMs }: { readonly limitBytes: number; readonly idleMs: number },
): AsyncGenerator<{ readonly event: string; readonly data: string }, void, undefined> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const chunk = await withinIdle(reader.read(), idleMs);
      if (chunk.done) return;
      text += decoder.decode(chunk.value, { stream: true });
      // Characters, of which each has at least one byte.
      if (text.length > limitBytes) {
        throw new Error(`a message exceeds ${limitBytes} bytes (answerLimitBytes)`);
      }
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const data = fieldOf(block, 'data');
        // A block without data is a heartbeat.
        if (data !== undefined) yield { event: fieldOf(block, 'event') ?? 'message', data };
      }
    }
  } finally {
    // Closes the connection; its error does not matter.
    reader.cancel().catch(() => undefined);
  }
}

function fieldOf(block: string, field: string): string | undefined {
  const prefix = `${field}: `;
  const line = block.split('\n').find((one) => one.startsWith(prefix));
  return line?.slice(prefix.length);
}

async function withinIdle<Value>(read: Promise<Value>, idleMs: number): Promise<Value> {
  const { promise: idle, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no message within ${idleMs} ms`)), idleMs);
  try {
    return await Promise.race([read, idle]);
  } finally {
    clearTimeout(timer);
  }
}
