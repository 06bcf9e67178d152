// SQL condition that a row has all labels and annotations of a filter; an empty filter matches every row. The matching ids are computed once
// per statement.
import type { Slots } from '@brokkr/postgres'

export interface LabelFilter {
  readonly labels: string[]
  /** Annotation keys; `values` has the value at the same index. */
  readonly keys: string[]
  readonly values: string[]
}

interface LabelTables {
  readonly labels: 'agent_labels' | 'stack_labels'
  readonly annotations: 'agent_annotations' | 'stack_annotations'
  /** Column of the label tables that references the row, and the expression it must equal. */
  readonly owner: string
  readonly is: string
}

/** The lists must not contain duplicates. */
export const matchesLabels = (p: Slots<LabelFilter>, { labels, annotations, owner, is }: LabelTables): string => `
    (cardinality(${p.labels}::text[]) = 0 or ${is} in (
      select m.${owner} from ${labels} m where m.label = any(${p.labels}::text[]) group by m.${owner} having count(*) = cardinality(${p.labels}::text[])))
    and (cardinality(${p.keys}::text[]) = 0 or ${is} in (
      select m.${owner} from unnest(${p.keys}::text[], ${p.values}::text[]) as w (key, value)
      join ${annotations} m on m.key = w.key and m.value = w.value group by m.${owner} having count(*) = cardinality(${p.keys}::text[])))`
