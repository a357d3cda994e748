/** An HTTP service with its worker in one process. Several of these processes can share one store. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { isPerdureError, Perdure } from 'perdure';
import { order, paid, release, reserve, ship, type Order } from './worker.ts';

const perdure = await Perdure.open(process.env['DATABASE_URL'] ?? 'perdure.db');
await perdure.startWorker({ orchestrations: [order], activities: [reserve, release, ship] });
const { client } = perdure;

async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const [, resource, id, action] = (request.url ?? '/').split('/').map(decodeURIComponent);
  const call = `${request.method} ${action ?? resource}`;
  if (resource !== 'orders') return send(response, 404, { error: 'No such route.' });
  if (call === 'POST orders' && id === undefined) {
    const input = (await readJson(request)) as Order;
    const instance = await client.start(order, input, { tags: { customer: input.customer } });
    return send(response, 202, { id: instance.id });
  }
  if (call === 'POST paid' && id !== undefined) {
    const { reference } = (await readJson(request)) as { readonly reference: string };
    await client.raiseEvent(id, paid, { reference });
    return send(response, 202, { id });
  }
  const found = call === 'GET orders' && id !== undefined ? await client.get(id) : undefined;
  if (found === undefined) return send(response, 404, { error: 'No such order.' });
  return send(response, 200, { id, status: found.status, output: found.output });
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as unknown;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const server = createServer((request, response) => {
  handle(request, response).catch((error: unknown) => {
    const isCallerError = error instanceof SyntaxError || isPerdureError(error);
    const message = error instanceof Error ? error.message : String(error);
    send(response, isCallerError ? 400 : 500, {
      error: isCallerError ? message : 'Internal error.',
    });
  });
});

server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') console.log(`http://127.0.0.1:${address?.port}/orders`);
});

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => {
    server.close();
    // Running activities finish; the next process continues what waits.
    void perdure.close();
  });
}
