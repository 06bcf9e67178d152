// What a revision should be told of although it was applied: marks of ours that its manifest tried to set, and what the API server
// warned of, such as a version that will go. Pure.
import type { ApplyOutcome } from '@brokkr/kube/apply-object.ts'
import { describeRef, refOf } from '@brokkr/kube/object.ts'
import type { DesiredObject } from './desired.ts'
import { maskText } from './mask.ts'

const warningsMax = 20

export function warningsOf(desired: readonly DesiredObject[], applied: readonly ApplyOutcome[]): string[] {
  const reserved = desired.flatMap(({ object, overwritten }) =>
    overwritten.map((key) => `${describeRef(refOf(object))}: ${key} is the agent's own and was overwritten`),
  )
  const served = applied.flatMap(({ ref, warnings }) => warnings.map((text) => `${describeRef(ref)}: ${text}`))
  const objects = desired.map(({ uncut }) => uncut)
  return [...reserved, ...served].slice(0, warningsMax).map((text) => maskText(text, objects))
}
