/** The width of an element inside its padding. */
export function innerWidth(element: HTMLElement): number {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  return Math.max(
    200,
    element.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight),
  );
}
