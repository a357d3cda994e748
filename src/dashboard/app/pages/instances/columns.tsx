import type { JSX } from 'preact';
import { Status } from '../../components/status.tsx';
import { Ago, Name, Sentence } from '../../components/text.tsx';
import { instanceHref } from '../../state/router.ts';
import { stored } from '../../state/settings.ts';
import { now } from '../../state/clock.ts';
import { formatAge, formatDateTime, formatDuration } from '../../words/format.ts';
import { isActive, toneOf, type Tone } from '../../words/status.ts';
import { isVersion, versionText } from '../../words/version.ts';
import type { Explained, Row } from './instance-rows.ts';

export interface Column {
  readonly key: string;
  readonly title: string;
  /** Its share of the grid. */
  readonly width: string;
  readonly class: string;
  readonly cell: (row: Row, explained: Explained | undefined) => JSX.Element | string;
}

/** All columns after the check box. Status and id are always shown. */
const allColumns: readonly Column[] = [
  {
    key: 'status',
    title: 'Status',
    width: '104px',
    class: 'c-st',
    cell: (row, explained) => <Status tone={rowTone(row, explained)} />,
  },
  {
    key: 'id',
    title: 'Id',
    width: 'minmax(120px, 190px)',
    class: 'id cut',
    cell: ({ id }) => (
      <a href={instanceHref(id)} tabIndex={-1} title={id}>
        <bdi>{id}</bdi>
      </a>
    ),
  },
  {
    key: 'name',
    title: 'Name',
    width: 'minmax(96px, 148px)',
    class: 'nm cut',
    cell: ({ name, version }) => (
      <>
        <Name>{name}</Name>
        {isVersion(version) && <small>{versionText(version)}</small>}
      </>
    ),
  },
  {
    key: 'now',
    title: 'What it does now',
    width: 'minmax(0, 1fr)',
    class: 'now cut',
    cell: (row, explained) => {
      const text = describe(row, explained?.text);
      return (
        <>
          <Sentence>{text}</Sentence>
          {text === '' && <bdi class="only-s">{row.name}</bdi>}
        </>
      );
    },
  },
  {
    key: 'worker',
    title: 'Worker',
    width: 'minmax(0, 104px)',
    class: 'now cut c-wk',
    cell: (row, explained) => (isActive(row.status) ? <bdi>{explained?.worker}</bdi> : ''),
  },
  {
    key: 'tags',
    title: 'Tags',
    width: 'minmax(0, 180px)',
    class: 'now cut c-wk',
    cell: ({ tags = {} }) => (
      <bdi>
        {Object.entries(tags)
          .map(([key, value]) => `${key}=${value}`)
          .join(' ')}
      </bdi>
    ),
  },
  {
    key: 'parent',
    title: 'Parent',
    width: 'minmax(0, 140px)',
    class: 'id cut c-wk',
    cell: ({ parentId }) =>
      parentId === undefined ? (
        ''
      ) : (
        <a href={instanceHref(parentId)} tabIndex={-1}>
          <bdi>{parentId}</bdi>
        </a>
      ),
  },
  {
    key: 'created',
    title: 'Created',
    width: '150px',
    class: 'r c-dur',
    cell: ({ createdAt }) => formatDateTime(createdAt),
  },
  {
    key: 'duration',
    title: 'Duration',
    width: '92px',
    class: 'r c-dur',
    cell: ({ startedAt, endedAt }) =>
      startedAt === undefined ? '' : formatDuration((endedAt ?? now.value) - startedAt),
  },
  {
    key: 'ended',
    title: 'Ended',
    width: '92px',
    class: 'r c-dur',
    cell: ({ endedAt }) => (endedAt === undefined ? '' : <Ago at={endedAt} />),
  },
  {
    key: 'lastStep',
    title: 'Last step',
    width: '92px',
    class: 'r c-dur',
    cell: ({ endedAt }, explained) => {
      const at = endedAt ?? explained?.lastActiveAt;
      return at === undefined ? '' : <Ago at={at} />;
    },
  },
  {
    key: 'age',
    title: 'Age',
    width: '84px',
    class: 'r c-age',
    cell: ({ createdAt }) => (
      <time title={formatDateTime(createdAt)}>{formatAge(now.value - createdAt)}</time>
    ),
  },
];

const fixed = ['status', 'id'];
export const chosenColumns = stored<readonly string[]>(
  'columns',
  ['name', 'now', 'worker', 'lastStep', 'age'],
  (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
);

export function shownColumns(): readonly Column[] {
  const chosen = chosenColumns.value;
  return allColumns.filter(({ key }) => fixed.includes(key) || chosen.includes(key));
}

export const optionalColumns = allColumns.filter(({ key }) => !fixed.includes(key));

/** The status in a row. Work that is tried again stands out from work that runs. */
function rowTone(row: Row, explained: Explained | undefined): Tone {
  const tone = toneOf(row);
  return tone === 'running' && explained?.retrying === true ? 'retrying' : tone;
}

/** What an instance does or how it ended, from its row until the server has explained it. */
function describe(row: Row, explanation: string | undefined): string {
  const { status, failure, blocked, paused, cancel, terminated } = row;
  if (!isActive(status)) {
    if (failure !== undefined)
      return failure.code === undefined
        ? failure.message
        : `\`${failure.code}\` ${failure.message}`;
    if (terminated !== undefined) return terminated.reason;
    if (status === 'canceled' && cancel !== undefined) return cancel.reason;
    return '';
  }
  if (explanation !== undefined) return explanation;
  if (blocked !== undefined) return blocked.reason;
  if (paused !== undefined)
    return paused.reason === undefined ? 'Paused' : `Paused: ${paused.reason}`;
  if (cancel !== undefined) return `Canceling: ${cancel.reason}`;
  return status === 'pending' ? 'Queued for its first turn' : '';
}
