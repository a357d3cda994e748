import pg from 'pg';
import { onTestFinished } from 'vitest';

/** Watches the driver until the test is over; answers whether a statement or a new connection is under way. */
export function watchDriver(): () => boolean {
  let underWay = 0;
  const watch = <Call extends (...args: never[]) => unknown>(call: Call): Call =>
    function (this: unknown, ...args: never[]) {
      const answer = call.apply(this, args);
      if (answer instanceof Promise) {
        underWay += 1;
        void Promise.allSettled([answer]).then(() => (underWay -= 1));
      }
      return answer;
    } as Call;
  const calls = [
    [pg.Client.prototype, 'query'],
    [pg.Pool.prototype, 'connect'],
  ] as const;
  for (const [prototype, name] of calls) {
    const original: unknown = Reflect.get(prototype, name);
    Reflect.set(prototype, name, watch(original as (...args: never[]) => unknown));
    onTestFinished(() => void Reflect.set(prototype, name, original));
  }
  return () => underWay > 0;
}
