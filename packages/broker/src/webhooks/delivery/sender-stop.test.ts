// A broker that stops while receivers hang: deliveries that can end do, the others are given back at once, and another process sends them.
// long: waits out the grace of deliveries under way
import { unique } from '@brokkr/testing/broker.ts'
import { feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { loopbackAllowed, startReceiver } from './receiver.fixture.ts'

test('a stopping broker stores finished deliveries and releases the others', {
  timeout: 120_000,
}, async () => {
  const receiver = await startReceiver()
  const world = await feedWorld(loopbackAllowed)
  const open: { path: string; end: () => void }[] = []
  receiver.answer = (response, { path }) => void open.push({ path, end: () => void response.end() })
  const hook = async () => {
    const stack = await world.stack()
    const path = `/${unique('hook')}`
    const body = {
      name: 'h',
      url: `${receiver.url}${path}`,
      event_types: ['deployment.created'],
      filters: { stack_id: stack.id },
      timeout_seconds: 300,
    }
    const { id } = await world.broker.admin.createWebhook({ body })
    await world.submit(stack.id, 'x')
    await waitFor('it to hang', () => open.some((one) => one.path === path))
    const row = async () =>
      (
        await world.sql<{ id: string; status: string; attempts: number }>(
          'select id, status, attempts from webhook_deliveries where subscription_id = $1',
          [id],
        )
      )[0]!
    return { path, row }
  }
  const [slow, hung] = [await hook(), await hook()]
  const { id } = await hung.row()
  const gone = world.broker.stop()
  open.find(({ path }) => path === slow.path)!.end()
  await waitFor('the slow one', async () => (await slow.row()).status === 'success')
  expect(await gone).toBe(0)
  expect(await hung.row()).toEqual({ id, status: 'pending', attempts: 0 })
  receiver.answer = (response) => void response.end()
  const again = await world.broker.again()
  await waitFor('the other to send it', async () => (await hung.row()).status === 'success')
  const sent = receiver.received.filter(({ path }) => path === hung.path).map(({ headers }) => headers['webhook-id'])
  expect(sent).toEqual([id, id])
  await again.kill()
  await receiver.close()
})
