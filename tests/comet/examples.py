"""What the original and quitmt score alike: (source, translation, reference), ordinary and odd. All texts are ours.

``golden.json`` has a row of the original's scores for each, in this order.
"""

from __future__ import annotations

LONG_SOURCE = "the old house near the station " * 120
LONG_TRANSLATION = "a casa velha perto da rua " * 130
LONG_REFERENCE = "o gato dorme, e o cão espera à porta; " * 90
HALF_SOURCE = "the cat is sleeping on the sofa " * 34
HALF_TRANSLATION = "o gato dorme no sofá " * 46

ORDINARY = [
    ("The weather is nice today.", "O tempo está bom hoje.", "Hoje o tempo está bom."),
    ("The weather is nice today.", "O tempo está mau.", "Hoje o tempo está bom."),
    ("The weather is nice today.", "Das Wetter ist heute schön.", "Hoje o tempo está bom."),
    ("The cat is sleeping on the sofa.", "O gato dorme no sofá.", "O gato está a dormir no sofá."),
    ("The cat is sleeping on the sofa.", "O cão dorme no sofá.", "O gato está a dormir no sofá."),
    ("The cat is sleeping on the sofa.", "Die Katze schläft auf dem Sofa.", "Die Katze liegt auf dem Sofa."),
    ("We do not know when the train will arrive.", "Não sabemos quando chega o comboio.", "Não sabemos quando vem."),
    ("How much does this coffee cost?", "Quanto custa este café?", "Que preço tem este café?"),
    ("How much does this coffee cost?", "这杯咖啡多少钱?", "这咖啡要多少钱?"),
    ("How much does this coffee cost?", "このコーヒーはいくらですか。", "コーヒーのねだんは?"),
    ("Please close the window.", "Bitte mach das Fenster zu.", "Schließ bitte das Fenster."),
    (
        "She lost her keys on the way to the office, so she had to call her sister, who was reading a long book.",
        "Ela perdeu as chaves a caminho do escritório e teve de ligar à irmã, que estava a ler um livro longo.",
        "No caminho para o escritório perdeu as chaves, e por isso ligou à irmã, que lia um livro comprido.",
    ),
    ("No.", "Não.", "Não!"),
    ("No.", "Não, não, não e não.", "Não!"),
    ("In 1998 they planted 12 trees.", "Em 1998 plantaram 12 árvores.", "Plantaram doze árvores em 1998."),
    ("In 1998 they planted 12 trees.", "Em 1989 plantaram 21 árvores.", "Plantaram doze árvores em 1998."),
]
EMPTY = [
    ("", "", ""),
    ("", "O tempo está bom.", "Hoje o tempo está bom."),
    ("The weather is nice.", "", "Hoje o tempo está bom."),
    ("The weather is nice.", "O tempo está bom.", ""),
    ("   ", "O tempo está bom.", "Hoje o tempo está bom."),
    ("The weather is nice.", "     ", "Hoje o tempo está bom."),
    ("The weather is nice.", "O tempo está bom.", "\t \n"),
]
SAME = [
    ("The cat.", "O gato.", "O gato."),
    ("The cat.", "The cat.", "O gato."),
    ("The cat.", "The cat.", "The cat."),
]
LONG = [
    (LONG_SOURCE, "A casa velha.", "Uma casa velha."),
    ("The old house.", LONG_TRANSLATION, "Uma casa velha."),
    ("The old house.", "A casa velha.", LONG_REFERENCE),
    (LONG_SOURCE, LONG_TRANSLATION, LONG_REFERENCE),
    (HALF_SOURCE, HALF_TRANSLATION, "O gato dorme."),
    (HALF_SOURCE, HALF_TRANSLATION, HALF_TRANSLATION + "sempre"),
]
SCRIPTS = [
    ("Good morning! 🙂🙃", "Bom dia! 🙂🙃", "Bom dia 🙂"),
    ("🙂", "👩‍👩‍👧‍👦🇵🇹", "👋🏽"),
    ("The weather is nice today.", "الطقس جميل اليوم.", "اليوم الطقس جميل، لكن الريح باردة."),
    ("今天天气很好。", "今日は天気がいいです。", "天気がいい。"),
    ("ﬁne ① Ｗｉｄｅ ½", "ﬁno ① Ｌａｒｇｏ ½", "fino 1 Largo 1/2"),
    ("cafe\u0301 a\u0303", "café ã", "cafe a"),
    ("zero\u200bwidth\u00a0space", "espaço\u200bde\u00a0largura\ufeffzero", "espaço\u2028de largura zero"),
]
SPECIAL = [
    ("The </s> token", "O símbolo </s>", "Um </s> símbolo </s>"),
    ("<s> begins", "<s> começa", "<s>"),
    ("The <pad> token", "O símbolo <pad>", "Um símbolo de <pad> enchimento <pad>"),
    ("The <pad> token", "<pad>", "Um símbolo"),
    ("A <mask> hides", "Uma <mask> esconde", "Uma<mask>esconde <mask>"),
    ("<unk> ▁ <0x41>", "<unk> ▁▁ gato", "▁gato <unk>"),
    ("x", "<pad>" * 30, "y"),
    ("The old house near the station. " * 4, "<pad>" * 8 + "A casa.", "A casa velha perto da rua. " * 4),
]
SPACES = [
    ("The  cat   sleeps", "O  gato    dorme", " O gato dorme "),
    ("The cat\nsleeps", "O gato\ndorme\n", "O gato\r\ndorme"),
    ("The\tcat sleeps", "\tO gato\tdorme", "O gato dorme\t"),
]
EXAMPLES = [*ORDINARY, *EMPTY, *SAME, *LONG, *SCRIPTS, *SPECIAL, *SPACES]
