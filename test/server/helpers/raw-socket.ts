import { connect, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** Opens a TCP connection and closes it after the test. */
export async function openSocket(
  port: number,
  from: { readonly localAddress?: string } = {},
): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, ...from });
  // Many tests expect the server to close the connection.
  socket.on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  return socket;
}

/** Resolves with everything received until the server closes. */
export function readAll(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk: Buffer) => void (text += chunk.toString('latin1')));
    socket.once('end', () => resolve(text));
    socket.once('close', () => resolve(text));
  });
}

/** Sends raw bytes and resolves with the response. After `endAfterMs` it closes the sending side. */
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

/** Returns the head of a request; with `length`, a body must follow. */
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

/** Resolves with the first bytes received, or with '' if the server closes first. */
export function readFirst(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    socket.once('data', (chunk: Buffer) => resolve(chunk.toString('latin1')));
    socket.once('end', () => resolve(''));
    socket.once('close', () => resolve(''));
  });
}
