// Whether a stack may use a template: it must have all labels and annotations of the template. Pure.
interface Marks {
  readonly labels: readonly { readonly label: string }[]
  readonly annotations: readonly { readonly key: string; readonly value: string }[]
}

export interface Mismatch {
  readonly missing_labels: readonly string[]
  /** Pairs of key and value. */
  readonly missing_annotations: readonly (readonly [key: string, value: string])[]
}

/** Null: the stack matches. */
export function findMismatch(template: Marks, stack: Marks): Mismatch | null {
  const labels = new Set(stack.labels.map(({ label }) => label))
  const annotations = new Map(stack.annotations.map(({ key, value }) => [key, value]))
  const missing_labels = template.labels.map(({ label }) => label).filter((label) => !labels.has(label))
  const missing_annotations = template.annotations
    .filter(({ key, value }) => annotations.get(key) !== value)
    .map(({ key, value }) => [key, value] as const)
  return missing_labels.length + missing_annotations.length === 0 ? null : { missing_labels, missing_annotations }
}
