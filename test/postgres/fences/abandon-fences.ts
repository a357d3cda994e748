import assert from 'node:assert/strict';
import type { ConformanceCase } from '../../../src/testing/conformance/conformance-case.ts';
import { abandon, openSession, startJob } from '../../../src/testing/conformance/job-helpers.ts';
import { lockMs } from '../../../src/testing/conformance/store-under-test.ts';
import type { FencedStatement } from './fence.ts';

/** Not a case of the suite, because a store may use another path for jobs with an expired lease. */
const lapsedJob: ConformanceCase = {
  id: 'the abandon of a job with an expired lease',
  title: 'abandonJobs() ends a job with an expired lease immediately',
  async run(store) {
    await openSession(store);
    const { key } = await startJob(store, 'a');
    await store.clock.advance(lockMs);
    const result = await abandon(store, key);
    assert.equal(result.found && result.status, 'canceled');
  },
};

/**
 * Abandons of jobs whose runs a worker holds. `asked` selects the jobs of this path. Each write repeats its part of the
 * condition, because another transaction may change the row in between. Both places are removed together: with only one
 * removed, the statement divides by zero and the jobs use the multi-statement path.
 */
export const abandonFences: FencedStatement = {
  name: 'perdure_abandon_plainly',
  sentBy: 'job/an-abandoned-run-is-asked-to-stop',
  fences: [
    {
      demands: 'the incarnation',
      find: /one\.incarnation = wanted\.incarnation/,
      replace: 'TRUE',
      rejectedBy: 'job/is-meant-by-its-whole-key',
    },
    {
      demands: 'the session',
      find: /\(SELECT session_id FROM \S+\.sessions AS session\s+WHERE session\.session_key = one\.session_key\) = wanted\.session_id/,
      replace: 'TRUE',
      rejectedBy: 'job/is-meant-by-its-whole-key',
    },
    {
      // Every stop writes all three, so each alone is sufficient.
      demands: 'a run without a cancel request',
      find: /\((?:one|run)\.status = 'pending'\) IS TRUE|coalesce\((?:one|job)\.abandoned_at, -1\) = -1|\((?:one|item)\.cancel_requested_at IS NULL\) IS TRUE/,
      replace: 'TRUE',
      times: 6,
      rejectedBy: 'job/can-be-abandoned-twice',
    },
    {
      demands: 'a live lease',
      find: /(?:one|item)\.locked_until > (?:(?!\s+AND NOT).)+/,
      replace: 'TRUE',
      times: 2,
      rejectedBy: lapsedJob,
    },
    {
      demands: 'the point of no return is not passed',
      find: /NOT (?:one|item)\.point_of_no_return/,
      replace: 'TRUE',
      times: 2,
      rejectedBy: 'job/are-abandoned-each-for-itself',
    },
  ],
  selections: [
    { find: /one\.instance_id = wanted\.instance_id/, because: 'joins the run' },
    {
      find: /one\.instance_key = run\.instance_key/,
      times: 2,
      because: 'joins the job and the item',
    },
    {
      find: /one\.priority IS NOT NULL/,
      because: 'leaves out orchestrations, which are never pending while a worker holds an item',
    },
    {
      find: /one\.execution_id = 1 AND one\.operation = 1/,
      because: 'names the item of a task run',
    },
    { find: /run\.ctid = asked\.run_row_id/, because: 'joins the run' },
    { find: /job\.ctid = asked\.job_row_id/, because: 'joins the job' },
    { find: /item\.ctid = asked\.item_row_id/, because: 'joins the item' },
    {
      find: /job\.last_seq = asked\.last_seq/,
      because: 'sees a chunk that is emitted meanwhile; only a race shows it',
    },
    {
      find: /instance_key = ANY \(ARRAY\(SELECT instance_key FROM asked WHERE last_seq > 0\)\)/,
      because: 'names the chunks to delete',
    },
    {
      find: /\(SELECT count\(\*\) FROM (?:marked|flagged)\) = \(SELECT count\(\*\) FROM asked\)/,
      times: 2,
      because: 'sees a row that another transaction changed meanwhile; only a race shows it',
    },
    { find: /(?<=flagged ON )holds = 1/, because: 'reads the result' },
  ],
};
