import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MemberIndex } from './member-index.ts'

const member = fc.record({
  group: fc.constantFrom('', 'apps'),
  kind: fc.constantFrom('A', 'B'),
  namespace: fc.constantFrom('x', 'y'),
  name: fc.constantFrom('1', '2'),
  uid: fc.constantFrom('u', 'v'),
})
const keyOf = (each: { group: string; kind: string; namespace: string; name: string }) =>
  `${each.kind}${each.group ? `.${each.group}` : ''}|${each.namespace}|${each.name}`

test('the index equals the inventories after any history and reports each kind change', () => {
  const inventory = fc.uniqueArray(member, { selector: keyOf })
  const step = fc.record({ stack: fc.constantFrom('s', 't', 'u'), members: fc.option(inventory) })
  fc.assert(
    fc.property(fc.array(step), (steps) => {
      const index = new MemberIndex()
      const model = new Map<string, readonly { group: string; kind: string; namespace: string; name: string; uid: string }[]>()
      let heard = new Set<string>()
      const kindsNow = () => new Set(index.kinds().map(({ group, kind }) => `${kind}.${group}`))
      index.onKinds(() => (heard = kindsNow()))
      for (const { stack, members } of steps) {
        if (members === null) {
          index.delete(stack)
          model.delete(stack)
        } else {
          index.set(stack, members)
          model.set(stack, members)
        }
        const all = [...model.values()].flat()
        expect(kindsNow()).toEqual(new Set(all.map(({ group, kind }) => `${kind}.${group}`)))
        expect(heard).toEqual(kindsNow())
        expect(index.size).toBe(new Set(all.map(keyOf)).size)
        for (const each of all) {
          const holders = [...model]
            .filter(([, list]) => list.some((other) => keyOf(other) === keyOf(each) && other.uid === each.uid))
            .map(([id]) => id)
          expect(index.findStacks(keyOf(each), each.uid).toSorted()).toEqual(holders.toSorted())
        }
      }
    }),
  )
})
