import type { JSX } from 'preact';
import { instanceHref } from '../../../state/router.ts';
import { describeEvent } from '../../../words/event-text.ts';
import { formatTime } from '../../../words/format.ts';
import { isActive } from '../../../words/status.ts';
import { useHistory } from '../history-data.ts';
import type { InstanceState } from '../instance-data.ts';

const shown = 8;

/** The newest events, below the timeline. */
export function RecentEvents({ data }: { readonly data: InstanceState }): JSX.Element | null {
  const { id, executionId, status } = data.instance;
  const history = useHistory(id, executionId, { follows: isActive(status) });
  const entries = history.entries.value.slice(0, shown);
  if (entries.length === 0) return null;
  return (
    <section class="tail only-l">
      <table class="items">
        <caption class="sr">The newest events</caption>
        <thead>
          <tr>
            <th class="ew">Event</th>
            <th class="tw">Time</th>
            <th class="kw">Kind</th>
            <th>
              About
              <a class="link tail-more" href={instanceHref(id, 'history')}>
                All events
              </a>
            </th>
          </tr>
        </thead>
        <tbody>
          {entries.map(({ id: eventId, event }) => (
            <tr key={eventId}>
              <td class="dim">{eventId}</td>
              <td class="sec tnum">{formatTime(event.at, { millis: true })}</td>
              <td>
                <code>{event.kind}</code>
              </td>
              <td class="sec">
                <bdi>{describeEvent(event)}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
