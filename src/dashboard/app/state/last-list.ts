import { signal } from '@preact/signals';

/** The rows of the list that was shown last, so that the page of an instance can go to its neighbours. */
export const lastList = signal<{ readonly ids: readonly string[]; readonly query: string }>({
  ids: [],
  query: '',
});

/** The instances before and after one in that list. */
export function neighbours(id: string): { readonly before?: string; readonly after?: string } {
  const { ids } = lastList.value;
  const at = ids.indexOf(id);
  if (at === -1) return {};
  const [before, after] = [ids[at - 1], ids[at + 1]];
  return { ...(before !== undefined && { before }), ...(after !== undefined && { after }) };
}
