import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { Panel } from '../../components/panel.tsx';
import { Loading, Problem } from '../../components/states.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Moment } from '../../components/text.tsx';
import { now } from '../../state/clock.ts';
import { instanceHref } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';
import { statusWords, type Tone } from '../../words/status.ts';

const limit = 1_000;
const columns: readonly TableColumn[] = [
  { title: 'Execution', width: '12%' },
  { title: 'Status', width: '18%', small: 'side' },
  { title: 'Started', width: '16%' },
  { title: 'Duration', width: '12%', isNumber: true },
  { title: 'Events', width: '10%', isNumber: true },
  { title: 'How it ended' },
];

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
    <div class="wrap">
      <Panel>
        <Table label="Executions" columns={columns}>
          {items.toReversed().map((execution) => {
            const { executionId, status, startedAt, endedAt, historyLength } = execution;
            const tone: Tone = status in statusWords ? (status as Tone) : 'neutral';
            const how = execution.failure?.message ?? execution.reason ?? '';
            return (
              <Row
                key={executionId}
                cells={[
                  <a class="link" href={`${instanceHref(id, 'history')}?execution=${executionId}`}>
                    {formatNumber(executionId)}
                  </a>,
                  <Status
                    tone={tone}
                    {...(status === 'continuedAsNew' && { text: 'Continued as new' })}
                  />,
                  startedAt !== null && <Moment at={startedAt} />,
                  startedAt !== null && formatDuration((endedAt ?? now.value) - startedAt),
                  formatNumber(historyLength),
                  how !== '' && (
                    <bdi class="sec" title={how}>
                      {how}
                    </bdi>
                  ),
                ]}
              />
            );
          })}
        </Table>
      </Panel>
    </div>
  );
}
