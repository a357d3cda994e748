import type { JSX } from 'preact';
import type { Signal } from '@preact/signals';
import { may } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Menu } from '../../components/menu.tsx';
import { ask, type ActionKind, type ActionTarget } from '../../state/actions.ts';
import { query } from '../../state/router.ts';
import { formatNumber } from '../../words/format.ts';
import { toConditions } from './filter.ts';

/** Actions on the selected instances, or on all that match the filter. */
export function BulkBar({
  selected,
  isAllSelected,
  onDone,
}: {
  readonly selected: Signal<ReadonlySet<string>>;
  readonly isAllSelected: Signal<boolean>;
  readonly onDone: () => void;
}): JSX.Element | null {
  if (selected.value.size === 0 && !isAllSelected.value) return null;
  const clear = (): void => {
    selected.value = new Set();
    isAllSelected.value = false;
  };
  const start = (action: ActionKind): void => {
    const target: ActionTarget = isAllSelected.value
      ? { kind: 'filter', conditions: toConditions(query.value), query: query.value.toString() }
      : { kind: 'ids', ids: [...selected.value] };
    ask(action, target, () => {
      clear();
      onDone();
    });
  };
  return (
    <div class="bulk" role="toolbar" aria-label="Bulk actions">
      <span>
        {isAllSelected.value ? (
          <b>All that match</b>
        ) : (
          <>
            <b>{formatNumber(selected.value.size)}</b> selected
          </>
        )}
      </span>
      {!isAllSelected.value && (
        <button
          class="link bulk-all only-l"
          type="button"
          onClick={() => {
            isAllSelected.value = true;
          }}
        >
          Select all that match
        </button>
      )}
      {may('operate') && (
        <>
          <span class="sep only-l" />
          <Button look="ghost" class="only-l" onClick={() => start('pause')}>
            Pause
          </Button>
          <Button look="ghost" class="only-l" onClick={() => start('retry')}>
            Retry…
          </Button>
          <Button look="ghostDanger" onClick={() => start('cancel')}>
            Cancel…
          </Button>
          <Menu
            look="ghost"
            label="More actions"
            items={[
              { label: 'Pause', onSelect: () => start('pause') },
              { label: 'Resume', onSelect: () => start('resume') },
              { label: 'Retry…', onSelect: () => start('retry') },
              { label: 'Send event…', onSelect: () => start('raiseEvent') },
              { label: 'Terminate…', danger: true, onSelect: () => start('terminate') },
              ...(may('admin')
                ? [{ label: 'Delete…', danger: true, onSelect: () => start('delete') }]
                : []),
            ]}
          />
        </>
      )}
      <span class="sep" />
      <Button look="ghost" icon="close" label="Clear selection" onClick={clear} />
    </div>
  );
}
