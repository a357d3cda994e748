import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Moment } from '../../components/text.tsx';
import { instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';
import { statusWords, type Tone } from '../../words/status.ts';

const limit = 1_000;

/** The executions: each continue-as-new and each retry adds one. */
export function Executions({
  id,
  current,
}: {
  readonly id: string;
  readonly current: number;
}): JSX.Element {
  const page = useResource(`executions ${id} ${current}`, (signal) =>
    call('listExecutions', { params: { id }, query: { limit } }, signal),
  );
  const items = page.data.value?.items;
  if (items === undefined) {
    return page.error.value === undefined ? (
      <Loading />
    ) : (
      <Problem error={page.error.value} retry={() => page.reload()} />
    );
  }
  return (
    <div class="wrap table-scroll">
      <table>
        <thead>
          <tr>
            <th>Execution</th>
            <th>Status</th>
            <th>Started</th>
            <th class="num">Duration</th>
            <th class="num">Events</th>
            <th class="hide-s">How it ended</th>
          </tr>
        </thead>
        <tbody>
          {items.toReversed().map((execution) => {
            const tone: Tone =
              execution.status in statusWords ? (execution.status as Tone) : 'neutral';
            return (
              <tr key={execution.executionId}>
                <td>
                  <a
                    class="link"
                    href={`${instanceHref(id, 'history')}?execution=${execution.executionId}`}
                  >
                    {formatNumber(execution.executionId)}
                  </a>
                </td>
                <td>
                  <Status
                    tone={tone}
                    {...(execution.status === 'continuedAsNew' && { text: 'Continued as new' })}
                  />
                </td>
                <td>{execution.startedAt === null ? '' : <Moment at={execution.startedAt} />}</td>
                <td class="num">
                  {execution.startedAt === null || execution.endedAt === null
                    ? ''
                    : formatDuration(execution.endedAt - execution.startedAt)}
                </td>
                <td class="num">{formatNumber(execution.historyLength)}</td>
                <td class="hide-s sec">
                  <bdi>{execution.failure?.message ?? execution.reason ?? ''}</bdi>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
