/** The parts of Express 5 that the recipes use. Its types are a package of their own. */
declare module 'express' {
  import type { IncomingMessage, ServerResponse } from 'node:http';

  type Listener = (incoming: IncomingMessage, outgoing: ServerResponse) => void;

  export interface Express extends Listener {
    use(path: string, listener: Listener): Express;
    use(middleware: (incoming: never, outgoing: never, next: () => void) => void): Express;
  }

  interface CreateExpress {
    (): Express;
    json(): (incoming: never, outgoing: never, next: () => void) => void;
  }

  const express: CreateExpress;
  export default express;
}
