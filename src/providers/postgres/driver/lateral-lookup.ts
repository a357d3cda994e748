/**
 * Finds one row of a table for each row of the list before it, as `found.place`. A subquery with a limit is planned for
 * itself, so each is one probe of an index; a join by the key becomes a scan, or a comparison of each with each, when it
 * is planned while the table is small.
 *
 * What else is asked of the row must not fit an index: ask for `(status = 'running') IS TRUE`. Otherwise that index is
 * read for all rows of the status when it is planned while there are none.
 *
 * Only for rows that an earlier statement of the transaction has locked, or where it does no harm to pass one over: a row
 * that another transaction changes meanwhile has another place.
 */
export function placeOf(table: string, condition: string): string {
  return `CROSS JOIN LATERAL (SELECT one.ctid AS place FROM ${table} AS one WHERE ${condition} LIMIT 1) AS found`;
}
