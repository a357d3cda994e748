import type { Page } from 'playwright-core';

/** The focused element, as a person with a screen reader would know it. */
interface Focused {
  readonly tag: string;
  readonly role: string;
  /** Its label or text. */
  readonly name: string;
}

interface DomElement {
  readonly tagName: string;
  readonly textContent: string | null;
  readonly innerText?: string;
  readonly labels?: Iterable<DomElement> | null;
  getAttribute(name: string): string | null;
}

interface Dom {
  readonly document: {
    readonly activeElement: DomElement | null;
    getElementById(id: string): DomElement | null;
  };
}

/** Drives a page by its keyboard alone (bound A12). */
export class Keyboard {
  readonly #page: Page;

  constructor(page: Page) {
    this.#page = page;
  }

  /** Presses keys one after the other: `press('g', 'i')`. */
  async press(...keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.#page.keyboard.press(key);
  }

  /** Types text into the focused element. */
  async type(text: string): Promise<void> {
    await this.#page.keyboard.type(text);
  }

  async focused(): Promise<Focused> {
    return await this.#page.evaluate(() => {
      const { document } = globalThis as unknown as Dom;
      const element = document.activeElement;
      if (element === null) return { tag: '', role: '', name: '' };
      const text = (found: DomElement | null) => found?.innerText ?? found?.textContent ?? '';
      const ids = element.getAttribute('aria-labelledby')?.split(' ') ?? [];
      const name =
        element.getAttribute('aria-label') ??
        (ids.length > 0
          ? ids.map((id) => text(document.getElementById(id))).join(' ')
          : [...(element.labels ?? [])].map(text).join(' ') || text(element));
      return {
        tag: element.tagName.toLowerCase(),
        role: element.getAttribute('role') ?? '',
        name: name.replaceAll(/\s+/g, ' ').trim(),
      };
    });
  }

  /** Presses Tab until an element whose name matches has the focus. Throws with the names that it passed. */
  async tabTo(name: RegExp | string, maxTabs = 100): Promise<Focused> {
    const passed: string[] = [];
    for (let tabs = 0; tabs < maxTabs; tabs += 1) {
      await this.press('Tab');
      const focused = await this.focused();
      const isFound =
        typeof name === 'string' ? focused.name.includes(name) : name.test(focused.name);
      if (isFound) return focused;
      passed.push(`${focused.tag} ${JSON.stringify(focused.name)}`);
    }
    throw new Error(
      `No element named ${String(name)} within ${maxTabs} tabs: ${passed.join(', ')}`,
    );
  }
}
