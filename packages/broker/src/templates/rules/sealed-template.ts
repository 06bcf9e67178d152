// Encryption context of a template's source, which binds the ciphertext to its row.
export const toTemplateContext = (id: string) => ({ table: 'stack_templates', column: 'template_sealed', id })
