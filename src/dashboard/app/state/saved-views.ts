import { href } from './router.ts';
import { stored } from './settings.ts';

/** A named filter of the list of instances. */
export interface SavedView {
  readonly name: string;
  /** The parameters of the address. */
  readonly query: string;
}

const maxViews = 20;

/** The views of this browser. */
export const savedViews = stored<readonly SavedView[]>(
  'views',
  [],
  (value) =>
    Array.isArray(value) &&
    value.every(
      (one: unknown) =>
        typeof one === 'object' &&
        one !== null &&
        typeof (one as SavedView).name === 'string' &&
        typeof (one as SavedView).query === 'string',
    ),
);

export function viewHref(view: SavedView): string {
  return href(['instances'], view.query);
}

/** Adds a view, or replaces the one with this name. */
export function saveView(view: SavedView): void {
  const others = savedViews.value.filter(({ name }) => name !== view.name);
  savedViews.value = [...others, view].slice(-maxViews);
}

export function removeView(name: string): void {
  savedViews.value = savedViews.value.filter((view) => view.name !== name);
}
