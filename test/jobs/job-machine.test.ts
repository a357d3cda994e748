import { expect, it, onTestFinished } from 'vitest';
import { AttachedWork } from '../../src/jobs/attached-work.ts';
import { PerdureError } from '../../src/model/failures/errors.ts';
import { MemoryBackend } from './memory-backend.ts';
import { outcomeOf } from './outcome.ts';

/** Resolves when all work without a timer is done. */
async function settle(): Promise<void> {
  for (let round = 0; round < 20; round++) await new Promise((resolve) => setImmediate(resolve));
}

function begin(): { readonly backend: MemoryBackend; readonly work: AttachedWork } {
  const backend = new MemoryBackend();
  const work = new AttachedWork({
    backend,
    payloadLimitBytes: 1_000_000,
    assertOpen: () => undefined,
  });
  onTestFinished(async () => {
    await work.close(new PerdureError('CLOSED', 'The test is over.'));
    await settle();
    expect(backend.clock.nextAlarmAt).toBeUndefined();
  });
  return { backend, work };
}

const submitted = (backend: MemoryBackend): readonly string[] =>
  backend.calls.filter((call) => !/^(openSession|wait|shutdown)/.test(call));

it('repeated result() calls share one submission and take the reply once', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  const both = Promise.all([job.result(), job.result()]);
  await settle();
  backend.complete('j', 'done');
  expect(await both).toEqual(['done', 'done']);
  expect(await job.result()).toBe('done');
  await settle();
  expect(submitted(backend)).toEqual(['submit j', 'take j']);
});

it('a submission whose response was lost is retried and creates one job', async () => {
  const { backend, work } = begin();
  backend.failNext('openSession', 'after');
  backend.failNext('submit', 'after');
  backend.failNext('submit', 'before');
  backend.failNext('wait', 'after');
  backend.failNext('take', 'after');
  const job = work.submit('a', 1, { id: 'j' });
  const result = job.result();
  await expect.poll(() => backend.calls.filter((call) => call === 'wait j')).toHaveLength(2);
  backend.complete('j', 7);
  expect(await result).toBe(7);
  await expect.poll(() => backend.jobs.get('j')?.isTaken).toBe(true);
  expect(submitted(backend).filter((call) => call === 'submit j')).toHaveLength(3);
  expect(backend.jobs.size).toBe(1);
});

it('close() abandons the job immediately and ends its wait after the abandon returns', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  const result = outcomeOf(job.result());
  await settle();
  backend.ignoreCancel('j');
  const answer = backend.holdResponses('abandon');
  job.close();
  expect(backend.calls.at(-1)).toBe('abandon j');
  expect((await result).error).toMatchObject({ code: 'JOB_CLOSED' });
  await settle();
  expect(backend.waiting).toBe(1);
  answer();
  await settle();
  expect(backend.waiting).toBe(0);
  expect(submitted(backend)).toEqual(['submit j', 'abandon j']);
});

it('close() during a submission abandons the job only after the submission returns', async () => {
  const { backend, work } = begin();
  const answer = backend.holdResponses('submit');
  const job = work.submit('a', 1, { id: 'j' });
  await settle();
  job.close();
  await settle();
  expect(submitted(backend)).toEqual(['submit j']);
  answer();
  await settle();
  expect(submitted(backend)).toEqual(['submit j', 'abandon j']);
  expect(backend.jobs.get('j')?.isAbandoned).toBe(true);
});

it('close() after a lost submission retries it, then abandons the job', async () => {
  const { backend, work } = begin();
  backend.failNext('submit', 'before');
  backend.failNext('submit', 'after');
  const job = work.submit('a', 1, { id: 'j' });
  await settle();
  // On a busy machine the submission may have been retried by now.
  expect(submitted(backend)[0]).toBe('submit j');
  job.close();
  await expect.poll(() => backend.jobs.get('j')?.isAbandoned).toBe(true);
  expect(submitted(backend).at(-1)).toBe('abandon j');
});

it('a failed abandon is retried until it succeeds', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  await settle();
  backend.failNext('abandon', 'before');
  backend.failNext('abandon', 'after');
  expect(job.close()).toBeUndefined();
  await expect.poll(() => backend.jobs.get('j')?.isAbandoned).toBe(true);
});

it('a reply that arrives together with close() is given up, not delivered', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  const result = outcomeOf(job.result());
  await settle();
  backend.complete('j', 'late');
  job.close();
  expect(await result).toMatchObject({ error: { code: 'JOB_CLOSED' } });
  await settle();
  expect(backend.jobs.get('j')).toMatchObject({ isAbandoned: true, isTaken: false });
});

it('close() after a delivered reply does not abandon the job', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  await settle();
  backend.complete('j', 1);
  await job.result();
  job.close();
  await settle();
  expect(backend.jobs.get('j')).toMatchObject({ isAbandoned: false, isTaken: true });
  await expect(job.result()).rejects.toMatchObject({ code: 'JOB_CLOSED' });
});

it.each([
  ['shutdown()', 'shutdown forceful', 'shutdown'],
  ['close() of the client', 'shutdown forceful, leaving', 'close'],
] as const)(
  '%s waits until the store knows which replies were taken',
  async (_title, call, how) => {
    const { backend, work } = begin();
    const session = await work.openSession();
    const job = session.submit('a', 1, { id: 'j' });
    await settle();
    backend.complete('j', 1);
    const answer = backend.holdResponses('take');
    await job.result();
    const end =
      how === 'close'
        ? work.close(new PerdureError('CLOSED', 'over'))
        : session.shutdown('forceful');
    await settle();
    expect(backend.calls).not.toContain(call);
    answer();
    await end;
    expect(backend.calls).toContain(call);
  },
);

it('close() abandons a completed job whose result was never requested', async () => {
  const { backend, work } = begin();
  const job = work.submit('a', 1, { id: 'j' });
  await settle();
  backend.complete('j', 'a resource');
  await settle();
  job.close();
  await settle();
  expect(backend.jobs.get('j')).toMatchObject({ isAbandoned: true, isTaken: false });
});

it('maxInFlight sends the next job in order and skips a closed one', async () => {
  const { backend, work } = begin();
  const session = await work.openSession({ maxInFlight: 2 });
  const jobs = ['a', 'b', 'c', 'd'].map((id) => session.submit('x', 1, { id }));
  await settle();
  expect([...backend.jobs.keys()]).toEqual(['a', 'b']);
  jobs[2]?.close();
  backend.complete('a', 1);
  await settle();
  expect([...backend.jobs.keys()]).toEqual(['a', 'b', 'd']);
  jobs[1]?.close();
  jobs[3]?.close();
  await settle();
  expect(backend.calls).not.toContain('abandon c');
});

it('a session renews at a third of its lease until it ends, also while draining', async () => {
  const { backend, work } = begin();
  const session = await work.openSession({ idleTimeout: '30s' });
  session.submit('x', 1, { id: 'a' });
  await backend.clock.advance('25s');
  const renewals = (): number =>
    backend.calls.filter((call) => call.startsWith('keepAlive')).length;
  expect(renewals()).toBe(2);
  const shutdown = session.shutdown('graceful');
  await settle();
  await backend.clock.advance('20s');
  expect(renewals()).toBe(4);
  backend.complete('a', 1);
  await shutdown;
  await backend.clock.advance('10m');
  expect(renewals()).toBe(4);
  expect(backend.clock.nextAlarmAt).toBeUndefined();
});

it('a session ended elsewhere rejects its unsent jobs with SESSION_CLOSED', async () => {
  const { backend, work } = begin();
  const session = await work.openSession({ maxInFlight: 1 });
  session.submit('x', 1, { id: 'a' });
  const waiting = session.submit('x', 1, { id: 'b' });
  await settle();
  await backend.shutdown({ sessionId: session.id, mode: 'graceful', leaving: false });
  await backend.clock.advance('10s');
  await expect(waiting.result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  const late = session.submit('x', 1, { id: 'c' });
  await expect(late.result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  expect([...backend.jobs.keys()]).toEqual(['a']);
});

it('a client whose own session was ended elsewhere opens another after one rejection', async () => {
  const { backend, work } = begin();
  const first = work.submit('x', 1, { id: 'a' });
  await settle();
  await backend.shutdown({ sessionId: first.sessionId, mode: 'graceful', leaving: false });
  const refused = work.submit('x', 1, { id: 'b' });
  await expect(refused.result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  const second = work.submit('x', 1, { id: 'c' });
  expect(second.sessionId).not.toBe(first.sessionId);
  await settle();
  for (const id of ['a', 'c']) backend.complete(id, id);
  expect(await Promise.all([first.result(), second.result()])).toEqual(['a', 'c']);
});

it('a graceful shutdown is sent only after all earlier submissions', async () => {
  const { backend, work } = begin();
  const session = await work.openSession({ maxInFlight: 1 });
  const answer = backend.holdResponses('submit');
  session.submit('x', 1, { id: 'a' });
  session.submit('x', 1, { id: 'b' });
  const shutdown = session.shutdown('graceful');
  await settle();
  expect(backend.calls).not.toContain('shutdown graceful');
  answer();
  await settle();
  backend.complete('a', 1);
  await settle();
  expect(backend.calls.slice(-4)).toContain('shutdown graceful');
  backend.complete('b', 1);
  await shutdown;
});

it('a graceful shutdown overtaken by a forceful one resolves with it', async () => {
  const { backend, work } = begin();
  const session = await work.openSession();
  session.submit('x', 1, { id: 'a' });
  await settle();
  backend.failNext('shutdown', 'before');
  const graceful = session.shutdown('graceful');
  // Microtasks only: the pause before the retry of the failed call does not end meanwhile.
  while (!backend.calls.includes('shutdown graceful')) await Promise.resolve();
  await session.shutdown('forceful');
  await graceful;
  expect(backend.calls.filter((call) => call.startsWith('shutdown'))).toEqual([
    'shutdown graceful',
    'shutdown forceful',
    'shutdown graceful',
  ]);
});

it('a forceful shutdown delivers a completed result unless the job is disposable', async () => {
  const { backend, work } = begin();
  const session = await work.openSession();
  const kept = session.submit('x', 1, { id: 'a' });
  const disposed = session.submit('x', 1, { id: 'b', disposable: true });
  await settle();
  const answer = backend.holdResponses('shutdown');
  // Both complete before the shutdown reaches them.
  backend.complete('a', 1);
  backend.complete('b', 2);
  const shutdown = session.shutdown('forceful');
  answer();
  await shutdown;
  expect(await kept.result()).toBe(1);
  await expect(disposed.result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  await settle();
  expect([backend.jobs.get('a')?.isTaken, backend.jobs.get('b')?.isTaken]).toEqual([true, false]);
});

it('an expired session delivers a completed result unless the job is disposable', async () => {
  const { backend, work } = begin();
  const session = await work.openSession();
  const [kept, disposed] = ['a', 'b'].map((id) =>
    session.submit('x', 1, { id, disposable: id === 'b' }),
  );
  await settle();
  // The session expires without a notification; the client sees the completed run first.
  const { id } = session;
  const before = await session.info();
  backend.sessions.set(id, { ...before, state: 'ended', end: 'expired' });
  const results = [kept, disposed].map((job) => outcomeOf(job?.result() ?? Promise.resolve()));
  backend.complete('a', 1);
  backend.complete('b', 2);
  expect(await results[0]).toEqual({ value: 1 });
  expect(await results[1]).toMatchObject({ error: { code: 'SESSION_CLOSED' } });
  await settle();
  expect(backend.jobs.get('b')?.isTaken).toBe(false);
});

it('session.close() rejects all open jobs and sends no further calls', async () => {
  const { backend, work } = begin();
  const session = await work.openSession({ maxInFlight: 2 });
  const [running, over, unsent] = ['a', 'b', 'c'].map((id) => session.submit('x', 1, { id }));
  await settle();
  backend.complete('b', 1);
  const results = [running, unsent].map((job) => outcomeOf(job?.result() ?? Promise.resolve()));
  await settle();
  await session.close();
  for (const result of results) {
    expect(await result).toMatchObject({ error: { code: 'SESSION_CLOSED' } });
  }
  await expect(over?.result()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  for (const job of [running, over, unsent]) job?.close();
  await settle();
  const goodbye = backend.calls.indexOf('shutdown forceful, leaving');
  expect(backend.calls.slice(goodbye + 1)).toEqual([]);
});

it('session.close() without a response resolves and leaves the session to its lease', async () => {
  const { backend, work } = begin();
  const session = await work.openSession();
  backend.holdResponses('shutdown');
  const before = performance.now();
  await session.close();
  expect(performance.now() - before).toBeLessThan(10_000);
  expect(backend.clock.nextAlarmAt).toBeUndefined();
});

it('a client opens its session for the first job, closes it when idle and reopens', async () => {
  const { backend, work } = begin();
  const first = work.submit('x', 1, { id: 'a' });
  await settle();
  backend.complete('a', 1);
  await backend.clock.advance('1m');
  // An untaken reply keeps the session open.
  expect(backend.sessions.get(first.sessionId)?.state).toBe('open');
  await first.result();
  await backend.clock.advance('10s');
  expect(backend.calls.at(-1)).toBe('shutdown forceful, leaving');
  const second = work.submit('x', 1, { id: 'b' });
  expect(second.sessionId).not.toBe(first.sessionId);
  await settle();
  backend.complete('b', 2);
  expect(await second.result()).toBe(2);
});

it('a client keeps its session while a stream is read; status() works afterwards', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const stream = job.stream();
  await settle();
  backend.emit('a', 1);
  backend.complete('a', 'end');
  expect(await job.result()).toBe('end');
  await backend.clock.advance('1m');
  expect(await stream.next()).toEqual({ done: false, value: 1 });
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  await backend.clock.advance('10s');
  expect(backend.sessions.get(job.sessionId)?.state).not.toBe('open');
  expect(await job.status()).toMatchObject({ id: 'a', status: 'completed' });
});

it('a stream yields chunks in order across a lost response and opens only once', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const seen: unknown[] = [];
  const reading = (async () => {
    for await (const chunk of job.stream()) seen.push(chunk);
  })();
  await settle();
  backend.emit('a', 'one', 'two');
  await settle();
  backend.failNext('read', 'after');
  backend.emit('a', 'three');
  await expect.poll(() => seen).toEqual(['one', 'two', 'three']);
  backend.complete('a', 'end');
  await reading;
  expect(await job.result()).toBe('end');
  expect(() => job.stream()).toThrow(expect.objectContaining({ code: 'STREAM_TAKEN' }));
});

it('a reply is marked as taken only after its stream was read to the end', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const stream = job.stream();
  await settle();
  backend.emit('a', 1, 2);
  backend.complete('a', 'end');
  expect(await job.result()).toBe('end');
  await settle();
  expect(backend.jobs.get('a')?.isTaken).toBe(false);
  expect(await stream.next()).toEqual({ done: false, value: 1 });
  expect(await stream.next()).toEqual({ done: false, value: 2 });
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  await settle();
  expect(backend.jobs.get('a')?.isTaken).toBe(true);
});

it('leaving a stream early, or before its first chunk, abandons the job', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  await settle();
  backend.emit('a', 1, 2);
  for await (const chunk of job.stream()) {
    expect(chunk).toBe(1);
    break;
  }
  await settle();
  expect(backend.jobs.get('a')?.isAbandoned).toBe(true);
  const unread = work.submit('x', 1, { id: 'b' });
  await settle();
  await unread.stream().return?.();
  await settle();
  expect(backend.jobs.get('b')?.isAbandoned).toBe(true);
});

it('a stream of a failed job ends with its error and takes the reply', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const stream = job.stream();
  await settle();
  backend.emit('a', 1);
  backend.end('a', { kind: 'error', error: new PerdureError('INSTANCE_FAILED', 'broken') });
  expect(await stream.next()).toEqual({ done: false, value: 1 });
  await expect(stream.next()).rejects.toMatchObject({ code: 'INSTANCE_FAILED' });
  expect(await stream.next()).toEqual({ done: true, value: undefined });
  await settle();
  expect(backend.jobs.get('a')).toMatchObject({ isTaken: true, isAbandoned: false });
});

it('close() rejects a pending stream read with JOB_CLOSED', async () => {
  const { work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const next = outcomeOf(job.stream().next());
  await settle();
  job.close();
  expect(await next).toMatchObject({ error: { code: 'JOB_CLOSED' } });
});

it('chunks are discarded while the caller waits only for the result', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  const result = job.result();
  await settle();
  backend.emit('a', ...Array.from({ length: 200 }, (_, n) => n));
  await backend.clock.advance('5s');
  expect(backend.jobs.get('a')?.chunks).toEqual([]);
  backend.complete('a', 'end');
  expect(await result).toBe('end');
});

it('chunks are kept before result() is called and once a stream is opened', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  await settle();
  backend.emit('a', 1, 2);
  await backend.clock.advance('5s');
  const result = job.result();
  const stream = job.stream();
  await backend.clock.advance('5s');
  expect(await stream.next()).toEqual({ done: false, value: 1 });
  expect(await stream.next()).toEqual({ done: false, value: 2 });
  backend.complete('a', 'end');
  expect(await result).toBe('end');
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

it('result() with timeout 0 rejects immediately, and with 1000w waits for the result', async () => {
  const { backend, work } = begin();
  const job = work.submit('x', 1, { id: 'a' });
  await expect(job.result({ timeout: 0 })).rejects.toMatchObject({ code: 'TIMEOUT' });
  const patient = job.result({ timeout: '1000w' });
  await settle();
  backend.complete('a', 1);
  expect(await patient).toBe(1);
  expect(await job.result({ timeout: 0 })).toBe(1);
});
