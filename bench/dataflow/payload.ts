// The message of these benchmarks: an order of some 750 bytes with a card number that is masked on the way.

export function orderText(at: number): string {
  const items = Array.from({ length: 6 }, (_, item) => ({
    sku: `sku-${(at * 7 + item) % 9973}`,
    quantity: 1 + (item % 3),
    price: 9.5 + item,
  }))
  const order = {
    id: at,
    status: at % 20 === 0 ? 'cancelled' : 'open',
    customer: { id: at % 5000, name: `Customer ${at % 5000}`, email: `customer-${at % 5000}@example.com`, city: 'Trondheim' },
    card: '4111111111111111',
    items,
    note: 'leave it at the door, ring twice, and mind the dog that sleeps behind the gate in summer'.repeat(2),
    created: '2026-01-02T03:04:05Z',
  }
  return JSON.stringify(order)
}

/** The flow's three steps. */
export const transformations = [
  { type: 'filter', config: { condition: "status != 'cancelled'" } },
  { type: 'mask', config: { fields: ['card'] } },
  { type: 'timestamp', config: { fieldName: 'processed_at' } },
]

/** The same by hand. */
export function transformBare(value: Buffer): Buffer | undefined {
  const order = JSON.parse(value.toString()) as Record<string, unknown>
  if (order['status'] === 'cancelled') return undefined
  order['card'] = '***'
  order['processed_at'] = new Date().toISOString()
  return Buffer.from(JSON.stringify(order))
}
