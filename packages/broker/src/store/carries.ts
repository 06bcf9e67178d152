// The condition that a thing carries every label and every annotation asked for; nothing asked holds for everything. Read as a
// set, once, whatever the length of the list it filters.
import type { Slots } from './sql.ts'

export interface MarkFilter {
  readonly labels: string[]
  /** Annotations in two lists of one length. */
  readonly keys: string[]
  readonly values: string[]
}

interface Marks {
  readonly labels: 'agent_labels' | 'stack_labels'
  readonly annotations: 'agent_annotations' | 'stack_annotations'
  /** The column of the side tables that names the thing, and what it must equal. */
  readonly owner: string
  readonly is: string
}

/** Each label and pair stands in the lists once. */
export const carries = (p: Slots<MarkFilter>, { labels, annotations, owner, is }: Marks): string => `
    (cardinality(${p.labels}::text[]) = 0 or ${is} in (
      select m.${owner} from ${labels} m where m.label = any(${p.labels}::text[]) group by m.${owner} having count(*) = cardinality(${p.labels}::text[])))
    and (cardinality(${p.keys}::text[]) = 0 or ${is} in (
      select m.${owner} from unnest(${p.keys}::text[], ${p.values}::text[]) as w (key, value)
      join ${annotations} m on m.key = w.key and m.value = w.value group by m.${owner} having count(*) = cardinality(${p.keys}::text[])))`
