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
        const done = (): void => void (underWay -= 1);
        answer.then(done, done);
      }
      return answer;
    } as Call;
  const { query } = pg.Client.prototype;
  const { connect } = pg.Pool.prototype;
  pg.Client.prototype.query = watch(query);
  pg.Pool.prototype.connect = watch(connect);
  onTestFinished(() => {
    pg.Client.prototype.query = query;
    pg.Pool.prototype.connect = connect;
  });
  return () => underWay > 0;
}
