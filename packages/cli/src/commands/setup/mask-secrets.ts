// Masks secrets in a value that leaves the machine: fields with telling names, PAKs and tokens in texts, credentials in addresses. Pure.

const field = /(^|_)(pak|token|secret|password|passwd|credential|authorization|auth_header|key|cookie)s?(_|$)/i
/** Names that match above and hold no secret. */
const harmless = /^(short_token|idempotency_key|has_auth_header|key|pak_id|pak_file|secret_name)$/i
const inText: readonly (readonly [RegExp, string])[] = [
  [/\bbrokkr_BR[1-9A-HJ-NP-Za-km-z]{6}_[1-9A-HJ-NP-Za-km-z]+/g, '***pak***'],
  [/\bjt_[1-9A-HJ-NP-Za-km-z]+_[1-9A-HJ-NP-Za-km-z]+/g, '***join token***'],
  [/\b(bearer|basic|join)\s+[\w.~+/=-]{8,}/gi, '$1 ***'],
  [/([a-z][a-z0-9+.-]*:\/\/)[^\s/@:]+:[^\s/@]+@/gi, '$1***@'],
]
const isSecretName = (key: string): boolean => field.test(key.replaceAll('.', '_')) && !harmless.test(key)
const depthMax = 64

export function maskSecrets(value: unknown): { readonly value: unknown; readonly masked: readonly string[] } {
  const masked: string[] = []
  const visit = (item: unknown, path: string, depth: number, isBelowSecret = false): unknown => {
    if (depth > depthMax) return '***too deep***'
    if (typeof item === 'string') return maskText(item, path, masked)
    if (Array.isArray(item)) return item.map((one, at) => visit(one, `${path}[${at}]`, depth + 1))
    if (typeof item !== 'object' || item === null) return item
    return Object.fromEntries(
      Object.entries(item).map(([key, one]) => {
        const at = path === '' ? key : `${path}.${key}`
        const hasSecretName = isSecretName(key)
        const isSecret = (hasSecretName || (isBelowSecret && key === 'value')) && typeof one !== 'object' && typeof one !== 'boolean'
        if (!isSecret || one === null || one === undefined || one === '') return [key, visit(one, at, depth + 1, hasSecretName)]
        masked.push(at)
        return [key, '***']
      }),
    )
  }
  return { value: visit(value, '', 0), masked }
}

function maskText(text: string, path: string, masked: string[]): string {
  const shown = inText.reduce((rest, [pattern, replacement]) => rest.replace(pattern, replacement), text)
  if (shown !== text) masked.push(path)
  return shown
}
