import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Knows which connections of a server are in use, so that closing waits for those and for no others. */
export class Connections {
  readonly #inUse = new Map<Socket, number>();
  #isClosing = false;

  /** Looks after the connections of a server from now on. */
  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#inUse.set(socket, 0);
      socket.once('close', () => this.#inUse.delete(socket));
    });
  }

  /** A request came. */
  begin(socket: Socket): void {
    this.#inUse.set(socket, (this.#inUse.get(socket) ?? 0) + 1);
  }

  /** A request was answered. */
  end(socket: Socket): void {
    const left = (this.#inUse.get(socket) ?? 1) - 1;
    if (this.#inUse.has(socket)) this.#inUse.set(socket, left);
    // It could be used again, and would keep the server waiting.
    if (this.#isClosing && left === 0) socket.destroySoon();
  }

  /** Closes what is not in use now, and the rest as soon as it is answered. */
  close(): void {
    this.#isClosing = true;
    for (const [socket, count] of this.#inUse) if (count === 0) socket.destroy();
  }
}
