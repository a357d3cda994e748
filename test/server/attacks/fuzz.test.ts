import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { orchestration, Perdure } from 'perdure';
import { createToken, serve } from 'perdure/server';
import { writePath, type RouteShape } from '../../../src/server/routes/route.ts';
import { routes, type RouteName } from '../../../src/server/routes/table.ts';
import { exchange } from '../helpers/raw-socket.ts';
import { SeededRandom, RequestGenerator } from '../helpers/request-generator.ts';
import { review, workload } from '../helpers/workload.ts';

const count = 5_000;
const rawCount = 300;
const inFlight = 20;
const answerMs = 10_000;
const canary = 'CANARY-3f9d1c';

/** What no response may contain: secrets, stacks, SQL statements and paths of this machine. */
const leaks = [
  canary,
  process.cwd(),
  tmpdir() + '/',
  'node_modules',
  'SQLITE_',
  /\b(SELECT|INSERT INTO|UPDATE \w+ SET) /,
  /\bat \S+ \(?(file:|node:|\/)/,
  /\.ts:\d+/,
];

function prototypes(): unknown {
  return [Object, Array, Function, String, Number, Promise, Map, RegExp, Error, Response].map(
    (one) => Object.getOwnPropertyNames(one.prototype as object),
  );
}

const names = Object.keys(routes) as RouteName[];

it(`${count} fuzzed requests cause no 5xx response, hang or leaked secret`, async () => {
  const seed = Number(process.env['FUZZ_SEED'] ?? 20_240_607);
  const random = new SeededRandom(seed);
  const generator = new RequestGenerator(random);
  const before = prototypes();
  const folder = await mkdtemp(join(tmpdir(), `perdure-${canary}-`));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const perdure = await Perdure.open(join(folder, 'store.db'));
  onTestFinished(() => perdure.close());
  const tells = orchestration('tells', () => {
    const error = new Error('It failed.', { cause: new Error('And so did this.') });
    error.stack = `Error: It failed.\n    at secret (${canary}.ts:1:1)`;
    throw error;
  });
  const orchestrations = [...workload.orchestrations, tells];
  await perdure.startWorker({ ...workload, orchestrations, shutdownGrace: 100 });
  const { token, sha256 } = createToken();
  const logged: unknown[] = [];
  const keep = (fields: object): void => void logged.push(fields);
  const silent = (): undefined => undefined;
  const server = await serve(perdure, {
    port: 0,
    flows: [review],
    tokens: [{ name: 'fuzzer', role: 'admin', sha256 }],
    limits: { changesPerSecond: 1_000_000, wrongTokensPerMinute: 1_000_000 },
    logger: { debug: silent, info: silent, warn: silent, error: keep },
  });
  onTestFinished(() => server.close());
  // Restarts deleted instances, so that there is always data to leak.
  const refill = async (): Promise<void> => {
    for (const name of ['tells', 'fails', 'hello']) {
      await perdure.client.start(name, 'x', { id: name }).catch(() => undefined);
    }
  };

  const statuses = new Map<number, number>();
  const problems: string[] = [];
  const check = (what: string, status: number, text: string): void => {
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    if (status >= 500) problems.push(`${what} was answered ${status}: ${text.slice(0, 300)}`);
    for (const leak of [...leaks, token, sha256]) {
      const found = typeof leak === 'string' ? text.includes(leak) : leak.test(text);
      if (found) problems.push(`${what} leaks ${String(leak)}: ${text.slice(0, 2_000)}`);
    }
  };

  const sendOne = async (): Promise<void> => {
    const name = random.pick(names);
    const shape: RouteShape = routes[name];
    const parts = generator.make(name);
    const search = new URLSearchParams();
    for (const [key, value] of Object.entries(parts.query ?? {})) {
      for (const one of Array.isArray(value) ? (value as unknown[]) : [value]) {
        search.append(key, String(one).toWellFormed());
      }
    }
    const text = JSON.stringify(parts.body ?? {});
    // Truncates, doubles or corrupts some bodies.
    const damage = random.chance(0.05) ? random.below(3) : -1;
    const at = random.below(text.length);
    const damaged = [
      text.slice(0, at),
      text + text,
      `${text.slice(0, at)}\u0001${text.slice(at + 1)}`,
    ];
    const method = random.chance(0.03)
      ? random.pick(['PUT', 'DELETE', 'PATCH', 'POST'])
      : shape.method;
    const path = `${writePath(shape.path, parts.params)}?${search.toString()}`;
    const what = `${method} ${path} ${text.slice(0, 500)}`;
    const controller = new AbortController();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      controller.abort();
    }, answerMs);
    try {
      const response = await fetch(server.url + path, {
        method,
        headers: {
          authorization: random.chance(0.03) ? 'Bearer wrong' : `Bearer ${token}`,
          'content-type': random.chance(0.02) ? 'text/plain' : 'application/json',
        },
        ...(method !== 'GET' && { body: damaged[damage] ?? text }),
        signal: controller.signal,
      });
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream');
      const answer = isStream === true ? await readSome(response) : await response.text();
      check(what, response.status, answer + JSON.stringify([...response.headers]));
    } catch (error) {
      problems.push(`${what} ${isLate ? 'got no answer in time' : `failed: ${String(error)}`}`);
    } finally {
      clearTimeout(timer);
      controller.abort();
    }
  };

  for (let sent = 0; sent < count; sent += inFlight) {
    await refill();
    await Promise.all(Array.from({ length: inFlight }, sendOne));
  }

  const requestLine = 'POST /v1/instances HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n';
  for (let sent = 0; sent < rawCount; sent += inFlight) {
    await Promise.all(
      Array.from({ length: inFlight }, async () => {
        const whole = `${requestLine}Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"name":"hello"}`;
        const bytes = Buffer.from(whole);
        for (let changes = random.below(4); changes >= 0; changes -= 1) {
          bytes[random.below(bytes.length)] = random.below(256);
        }
        const answer = await exchange(
          server.port,
          Buffer.concat([bytes, Buffer.from('\r\n\r\n')]),
          {
            endAfterMs: 500,
          },
        );
        const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0);
        check(JSON.stringify(bytes.toString('latin1')), status, answer.replaceAll(token, ''));
      }),
    );
  }

  expect(problems, `seed ${seed}`).toEqual([]);
  expect(logged).toEqual([]);
  expect(prototypes()).toEqual(before);
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  // Enough requests must have passed authentication and parsing.
  expect(statuses.get(200) ?? 0).toBeGreaterThan(count / 10);
  expect(statuses.get(400) ?? 0).toBeGreaterThan(count / 10);
  const health = await fetch(`${server.url}/v1/health`);
  expect(health.status).toBe(200);
}, 240_000);

/** Reads only the first messages of a stream, which does not end by itself. */
async function readSome(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const first = await reader?.read();
  return new TextDecoder().decode(first?.value);
}
