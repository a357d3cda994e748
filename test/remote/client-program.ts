/** Submits jobs to a server from a separate process and awaits them until it is killed. */
import { connect } from '../../src/remote.ts';

const { url, token, jobs } = JSON.parse(process.argv[2] ?? '') as {
  readonly url: string;
  readonly token: string;
  readonly jobs: number;
};
process.on('disconnect', () => process.exit(1));

const { client } = await connect(url, { token });
const session = await client.openSession({ label: 'doomed', idleTimeout: '5s' });
const held = Array.from({ length: jobs }, () =>
  session.submit('endless', undefined, { kind: 'task' }),
);
await Promise.all(held.map((job) => job.result()));
