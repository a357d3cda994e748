import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Icon } from '../../components/icon.tsx';
import { href, query } from '../../state/router.ts';
import {
  removeView,
  savedViews,
  saveView,
  viewHref,
  type SavedView,
} from '../../state/saved-views.ts';
import { useViewCounts } from '../../state/view-counts.ts';
import { formatCount } from '../../words/format.ts';
import { hasConditions } from './filter.ts';

/** Views that are always offered. */
const builtIn: readonly SavedView[] = [
  { name: 'All', query: '' },
  { name: 'In flight', query: 'status=pending&status=running&status=canceling' },
  { name: 'Failed in the last day', query: 'status=failed&ended=24h' },
  { name: 'Blocked', query: 'blocked=yes' },
  { name: 'Paused', query: 'paused=yes' },
];

/** Named filters. */
export function ViewBar(): JSX.Element {
  const [isSaving, setSaving] = useState(false);
  const search = query.value.toString();
  const counts = useViewCounts([...builtIn, ...savedViews.value]);
  const isKnown = [...builtIn, ...savedViews.value].some((view) => view.query === search);
  return (
    <nav class="views" aria-label="Saved views">
      {builtIn.map((view) => (
        <a
          key={view.name}
          href={viewHref(view)}
          aria-current={view.query === search ? 'true' : undefined}
        >
          {view.name}
          <ViewCount count={counts.get(view.query)} />
        </a>
      ))}
      {savedViews.value.map((view) => (
        <span key={view.name} class="view">
          <a href={viewHref(view)} aria-current={view.query === search ? 'true' : undefined}>
            <bdi class="cut">{view.name}</bdi>
            <ViewCount count={counts.get(view.query)} />
          </a>
          {view.query === search && (
            <Button
              small
              look="ghost"
              icon="close"
              label={`Remove view ${view.name}`}
              onClick={() => removeView(view.name)}
            />
          )}
        </span>
      ))}
      {!isKnown && hasConditions(query.value) && (
        <Button small look="ghost" icon="plus" onClick={() => setSaving(true)}>
          Save view
        </Button>
      )}
      {hasConditions(query.value) && (
        <a class="clear" href={href(['instances'])}>
          <Icon small name="close" />
          Clear
        </a>
      )}
      {isSaving && <SaveDialog search={search} onClose={() => setSaving(false)} />}
    </nav>
  );
}

function ViewCount({
  count,
}: {
  readonly count: Parameters<typeof formatCount>[0] | undefined;
}): JSX.Element | null {
  return count === undefined ? null : <span class="tnum">{formatCount(count)}</span>;
}

function SaveDialog({
  search,
  onClose,
}: {
  readonly search: string;
  readonly onClose: () => void;
}): JSX.Element {
  const [name, setName] = useState('');
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    if (name.trim() === '') return;
    saveView({ name: name.trim(), query: search });
    onClose();
  };
  return (
    <Dialog title="Save this view" onClose={onClose}>
      <form onSubmit={save}>
        <div class="dlg-b">
          <label class="field">
            <span>Name</span>
            <input
              class="input"
              maxLength={40}
              required
              autofocus
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </label>
          <p class="sub">Kept in this browser. To share it, copy the address of the page.</p>
        </div>
        <div class="dlg-f">
          <div class="right">
            <Button onClick={onClose}>Do not save</Button>
            <Button type="submit" look="primary">
              Save view
            </Button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}
