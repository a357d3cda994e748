import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A connection of a test's own, closed when the test is over. */
export async function openSocket(
  port: number,
  from: { readonly localAddress?: string } = {},
): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, ...from });
  // A server that closes a connection is what many of these tests are about.
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  return socket;
}

/** All that comes until the other side closes. */
export function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => void (text += chunk.toString('latin1')));
    socket.once('end', () => resolve(text));
    socket.once('close', () => resolve(text));
  });
}

/** Sends bytes as they are, and answers what comes back; after so long this side says that it has no more to send. */
export async function exchange(
  port: number,
  bytes: string | Buffer,
  { endAfterMs }: { readonly endAfterMs?: number } = {},
): Promise<string> {
  const socket = await openSocket(port);
  const answer = readAll(socket);
  socket.write(bytes);
  const timer = endAfterMs === undefined ? undefined : setTimeout(() => socket.end(), endAfterMs);
  const text = await answer;
  clearTimeout(timer);
  socket.destroy();
  return text;
}

/** The head of a request; with a length its body is to follow. */
export function headOf(
  request: string,
  { token, length }: { readonly token?: string; readonly length?: number } = {},
): string {
  const lines = [
    `${request} HTTP/1.1`,
    'Host: localhost',
    ...(token === undefined ? [] : [`Authorization: Bearer ${token}`]),
    ...(length === undefined
      ? []
      : ['Content-Type: application/json', `Content-Length: ${length}`]),
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}

/** The first bytes that come; empty where the other side closes without any. */
export function readFirst(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    socket.once('end', () => resolve(''));
    socket.once('close', () => resolve(''));
  });
}
